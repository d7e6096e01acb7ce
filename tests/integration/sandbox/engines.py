"""Isolation by the container engines of this machine, for the tests of every isolation, or a reason to skip."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.gvisor.isolation import GvisorIsolation, make_owner_name
from skillbus.sandbox.adapters.gvisor.runsc import Runsc


def runsc_engine(folder: Path) -> Runsc:
    """gVisor's runsc, from the path or by SKILLBUS_TEST_RUNSC."""
    program = os.environ.get("SKILLBUS_TEST_RUNSC") or shutil.which("runsc")
    if program is None:
        pytest.skip("there is no runsc on this machine: install it, or name it by SKILLBUS_TEST_RUNSC")
    return Runsc(folder / "runsc", program=program)


ENGINES: dict[str, Callable[[Path], Runsc]] = {"runsc": runsc_engine}


def engine_isolation(name: str, folder: Path) -> Iterator[GvisorIsolation]:
    """One whose containers are counted when it is given back: nothing of a run may be left."""
    engine = ENGINES[name](folder)
    owner = make_owner_name(folder)
    yield GvisorIsolation(engine, owner)
    assert names(engine, owner) == []


def names(engine: Runsc, owner: str) -> list[str]:
    """The containers of an owner that are there."""
    asked = subprocess.run(engine.list_command(), capture_output=True, text=True, check=True, timeout=20)
    return [name for name in asked.stdout.split() if name.startswith(owner)]
