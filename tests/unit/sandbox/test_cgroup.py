"""Values that a run's cgroup is limited by, written to a folder in place of the kernel's."""

from pathlib import Path

import pytest

from skillbus.sandbox.adapters.kernel.cgroup import Cgroups
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.run.limits import Limits

FILES = ("memory.max", "memory.oom.group", "pids.max", "cpu.max", "memory.swap.max")


def test_a_run_that_is_out_of_memory_is_killed_as_a_whole_and_may_not_swap(tmp_path: Path) -> None:
    meter = Cgroups(tmp_path, cpus=1.5).create_meter()
    meter.folder.mkdir()
    for name in FILES:
        (meter.folder / name).touch()
    meter.limit(Limits(memory_bytes=4096, processes=7))
    assert [(meter.folder / name).read_text() for name in FILES] == ["4096", "1", "7", "150000 100000", "0"]


def test_a_limit_that_the_kernel_does_not_have_keeps_the_run_from_its_job(tmp_path: Path) -> None:
    meter = Cgroups(tmp_path).create_meter()
    meter.folder.mkdir()
    with pytest.raises(SandboxBroken, match="could not be limited"):
        meter.limit(Limits())
