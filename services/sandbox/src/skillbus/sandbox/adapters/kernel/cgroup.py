"""A run's processes in a cgroup (version 2) of their own: the kernel itself holds memory and processes.

Memory is that of the kernel's own accounting, so that it counts what is in no process: files in memory, pipes, sockets.
The numbers of inodes and of sockets stay with the watchdog, since the kernel has no limit for them.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.kernel.delegation import SERVICE, NotDelegatedError
from skillbus.sandbox.adapters.kernel.watchdog import check_inodes, check_sockets, process_tree, watch
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.metering import Excess, Usage
from skillbus.sandbox.domain.run.limits import MIB, Limits

_RUN: Final = "skillbus-run-"
_PERIOD_US: Final = 100_000
"""Of cpu.max: the kernel's default."""
_GONE_S: Final = 10.0
_AGAIN_S: Final = 0.005


class Cgroups:
    """`Metering` by cgroups below a folder that is ours; `cpus` are what each run may use at once."""

    def __init__(self, folder: Path, cpus: float | None = None) -> None:
        self._folder = folder
        self._cpus = cpus

    def prepare(self) -> str:
        """See `Metering.prepare`. Processes of the folder itself move into one below it: the kernel demands that.

        Raises:
            NotDelegatedError: The kernel does not let us, or lacks a controller; the message says which.
        """
        wanted = {"memory", "pids"} if self._cpus is None else {"memory", "pids", "cpu"}
        try:
            self._enable(wanted)
            self._try()
        except OSError as error:
            raise NotDelegatedError(f"{self._folder} cannot be used: {error}") from error
        return f"memory and processes are held by cgroups below {self._folder}"

    def meter(self) -> "CgroupMeter":
        """See `Metering.meter`."""
        return CgroupMeter(self._folder / f"{_RUN}{os.getpid()}-{uuid4().hex[:12]}", self._cpus)

    def _enable(self, wanted: set[str]) -> None:
        missing = wanted - set(_read(self._folder, "cgroup.controllers").split())
        if missing:
            raise NotDelegatedError(f"{self._folder} has no controller for {', '.join(sorted(missing))}")
        self._remove_those_of_the_dead()
        inner = _read(self._folder, "cgroup.procs").split()
        if inner:
            service = self._folder / SERVICE
            service.mkdir(exist_ok=True)
            for pid in inner:
                with suppress(ProcessLookupError):
                    _write(service, "cgroup.procs", pid)
        _write(self._folder, "cgroup.subtree_control", " ".join(f"+{kind}" for kind in sorted(wanted)))

    def _try(self) -> None:
        """Everything that a run will need, on a process of no use."""
        folder = self.meter().folder
        with subprocess.Popen(["sleep", f"{_GONE_S:g}"]) as useless:
            try:
                folder.mkdir()
                _limit(folder, Limits(), self._cpus)
                _write(folder, "cgroup.procs", str(useless.pid))
            finally:
                useless.kill()
                useless.wait()
                _remove(folder)

    def _remove_those_of_the_dead(self) -> None:
        """What a service that was killed left; those of another that lives are named after its process."""
        for folder in self._folder.glob(f"{_RUN}*"):
            pid = folder.name.removeprefix(_RUN).partition("-")[0]
            if not Path("/proc", pid).exists():
                _write(folder, "cgroup.kill", "1")
                with suppress(OSError):  # its processes are ending: it goes the next time
                    folder.rmdir()


class CgroupMeter:
    """`Meter` by a cgroup."""

    def __init__(self, folder: Path, cpus: float | None) -> None:
        self.folder = folder
        self._cpus = cpus
        self._roots: Sequence[int] = (0,)
        self._limits = Limits()

    async def enter(self, roots: Sequence[int]) -> None:
        """See `Meter.enter`. In a thread: the kernel waits for a quiet moment of all processors."""
        self._roots = roots
        try:
            await run_in_thread(self._enter)
        except OSError as error:
            raise SandboxBroken(f"the run's cgroup could not be made: {error}") from error

    def _enter(self) -> None:
        self.folder.mkdir()
        for pid in process_tree(self._roots):
            _write(self.folder, "cgroup.procs", str(pid))

    def limit(self, limits: Limits) -> None:
        """See `Meter.limit`."""
        self._limits = limits
        try:
            _limit(self.folder, limits, self._cpus)
        except OSError as error:
            raise SandboxBroken(f"the run's cgroup could not be limited: {error}") from error

    async def watch(self) -> Excess:
        """See `Meter.watch`."""
        return await watch(self._roots[0], self._look)

    def _look(self) -> Excess | None:
        return check_sockets(self._roots[0], self._limits) or check_inodes(self._roots[0], self._limits)

    def usage(self) -> Usage:
        """See `Meter.usage`. The peak is the kernel's, where it tells it (Linux 5.19)."""
        if not self.folder.exists():
            return Usage()
        peak = int(_read(self.folder, "memory.peak")) if (self.folder / "memory.peak").exists() else None
        events = dict(line.split() for line in _read(self.folder, "memory.events").splitlines())
        if int(events["oom_kill"]) == 0:
            return Usage(peak)
        return Usage(peak, Excess(RunStatus.MEMORY, f"{self._limits.memory_bytes // MIB} MiB of memory, the limit"))

    async def leave(self) -> None:
        """See `Meter.leave`.

        Raises:
            TimeoutError: when the kernel does not end killed processes in ten seconds.
        """
        if self.folder.exists():
            await run_in_thread(partial(_remove, self.folder))


def _remove(folder: Path) -> None:
    """A cgroup, if it is there, with whatever is in it."""
    until = time.monotonic() + _GONE_S
    while folder.exists():
        _write(folder, "cgroup.kill", "1")
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > until:
                raise TimeoutError(f"{folder} still has processes {_GONE_S:g} s after they were killed") from error
            time.sleep(_AGAIN_S)


def _limit(folder: Path, limits: Limits, cpus: float | None) -> None:
    for file, value in _values(limits, cpus):
        _write(folder, file, value)
    if (folder / "memory.swap.max").exists():  # not on a kernel without swap
        _write(folder, "memory.swap.max", "0")


def _values(limits: Limits, cpus: float | None) -> Iterator[tuple[str, str]]:
    yield "memory.max", str(limits.memory_bytes)
    yield "memory.oom.group", "1"
    yield "pids.max", str(limits.processes)
    if cpus is not None:
        yield "cpu.max", f"{int(cpus * _PERIOD_US)} {_PERIOD_US}"


def _read(folder: Path, file: str) -> str:
    return (folder / file).read_text()


def _write(folder: Path, file: str, value: str) -> None:
    """In one write, as the kernel wants it, and never to a file that the kernel did not make."""
    descriptor = os.open(folder / file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
