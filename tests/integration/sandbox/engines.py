"""Isolation by the container engines of this machine, for the tests of every isolation, or a reason to skip."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.engine import Engine
from skillbus.sandbox.adapters.engine_docker import DockerEngine
from skillbus.sandbox.adapters.engine_runsc import RunscEngine
from skillbus.sandbox.adapters.engines import EngineIsolation, owner_name

IMAGES = ("skillbus-sandbox:test", "skillbus-sandbox:0.1.0")


def docker_engine(_: Path) -> DockerEngine:
    """On the engine that Docker's client finds, with an image of the sandbox that was built before."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker on this machine")
    wanted = os.environ.get("SKILLBUS_TEST_SANDBOX_IMAGE")
    for image in (wanted,) if wanted else IMAGES:
        asked = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return DockerEngine(image)
    pytest.skip(
        f"no image of the sandbox: build one, or name it by SKILLBUS_TEST_SANDBOX_IMAGE: {asked.stderr.strip()}"
    )


def runsc_engine(folder: Path) -> RunscEngine:
    """gVisor's runsc, from the path or by SKILLBUS_TEST_RUNSC."""
    program = os.environ.get("SKILLBUS_TEST_RUNSC") or shutil.which("runsc")
    if program is None:
        pytest.skip("there is no runsc on this machine: install it, or name it by SKILLBUS_TEST_RUNSC")
    return RunscEngine(folder / "runsc", program=program)


ENGINES: dict[str, Callable[[Path], Engine]] = {"docker": docker_engine, "runsc": runsc_engine}


def engine_isolation(name: str, folder: Path) -> Iterator[EngineIsolation]:
    """One whose containers are counted when it is given back: nothing of a run may be left."""
    engine = ENGINES[name](folder)
    owner = owner_name(folder)
    yield EngineIsolation(engine, owner)
    assert names(engine, owner) == []


def names(engine: Engine, owner: str) -> list[str]:
    """The containers of an owner that are there."""
    asked = subprocess.run(engine.listing(owner), capture_output=True, text=True, check=True, timeout=20)
    return [name for name in asked.stdout.split() if name.startswith(owner)]
