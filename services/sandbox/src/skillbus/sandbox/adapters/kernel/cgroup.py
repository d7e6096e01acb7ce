"""Metering by cgroups (version 2): the kernel itself limits memory and processes of a run.

The kernel's memory accounting includes what belongs to no process: files in memory, pipes, sockets. Numbers of inodes
and sockets are checked as by the watchdog, since the kernel has no limit for them.
"""

import os
import re
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.host import run_in_thread
from skillbus.sandbox.adapters.kernel.watchdog import check_inodes, check_sockets, list_process_tree, poll_limits
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.isolation import ExceededLimit, SandboxUsage
from skillbus.sandbox.domain.run.limits import MIB, Limits

SERVICE: Final = "skillbus-service"
"""Cgroup below the delegated one into which the service moves itself; its parent stays the delegated one."""
_SELF: Final = Path("/proc/self")
_MARKS: Final = ("user.delegate", "trusted.delegate")
"""Extended attributes. The second can be read by root only. Source: systemd's `src/core/cgroup.c`."""
_RUN: Final = "skillbus-run-"
_PERIOD_US: Final = 100_000
"""Period of cpu.max: the kernel's default."""
_END_S: Final = 10.0
_RETRY_S: Final = 0.005


class NotDelegatedError(Exception):
    """No usable part of the cgroup tree is delegated; the message says why and what to do."""


def find_delegated(self_folder: Path = _SELF) -> Path:
    """Return the folder of this process's cgroup if it is delegated. `self_folder` is the process's folder in /proc.

    Only a part of the tree that its owner has delegated is used: systemd marks it (`Delegate=yes`) or gives it to the
    user; a container with its own cgroup namespace has it as its root. A service that is root could write anywhere in
    the tree, but must not: systemd would undo it, and it would undo the settings of others.

    Raises:
        NotDelegatedError: It is not delegated.
    """
    groups = [line for line in (self_folder / "cgroup").read_text().splitlines() if line.startswith("0::")]
    if not groups:
        raise NotDelegatedError("this kernel has cgroups of version 1 only")
    group = groups[0].removeprefix("0::").removesuffix(f"/{SERVICE}") or "/"
    folder = _locate_group(group, self_folder)
    if not (folder / "cgroup.events").exists():
        raise NotDelegatedError(
            f"{folder} is the root of the machine's own tree: start the service in a unit of its own"
        )
    if group != "/" and not _is_marked(folder) and not _starts_ownership(folder):
        raise NotDelegatedError(f"{folder} is not delegated: start the service with systemd's Delegate=yes")
    return folder


def _locate_group(group: str, self_folder: Path) -> Path:
    """Return the folder of `group` below a cgroup2 mount, which may show a part of the tree only.

    Source of the format: proc_pid_mountinfo(5). White space in paths is escaped in octal.
    """
    for line in (self_folder / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mounted = (
                re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path) for path in left.split()[3:5]
            )
            if Path(group).is_relative_to(root):
                return Path(mounted, Path(group).relative_to(root))
    raise NotDelegatedError("no mount of the cgroup tree visible to this process has its cgroup")


def _is_marked(folder: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


def _starts_ownership(folder: Path) -> bool:
    """Return True if the user owns `folder` but not its parent: users cannot read the mark of an older systemd."""
    return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid() != folder.parent.stat().st_uid


class Cgroups:
    """`Metering` by cgroups below a delegated folder. `cpus` is the number of processors that each run may use."""

    def __init__(self, folder: Path, cpus: float | None = None) -> None:
        self._folder = folder
        self._cpus = cpus

    def prepare(self) -> str:
        """See `Metering.prepare`. Moves processes of the folder itself into a subfolder, as the kernel requires.

        Raises:
            NotDelegatedError: The kernel refuses, or lacks a controller; the message says which.
        """
        wanted = {"memory", "pids"} if self._cpus is None else {"memory", "pids", "cpu"}
        try:
            self._enable_controllers(wanted)
            self._try_run()
        except OSError as error:
            raise NotDelegatedError(f"{self._folder} cannot be used: {error}") from error
        return f"memory and processes are limited by cgroups below {self._folder}"

    def create_meter(self) -> "CgroupMeter":
        return CgroupMeter(self._folder / f"{_RUN}{os.getpid()}-{uuid4().hex[:12]}", self._cpus)

    def _enable_controllers(self, wanted: set[str]) -> None:
        missing = wanted - set(_read_file(self._folder, "cgroup.controllers").split())
        if missing:
            raise NotDelegatedError(f"{self._folder} has no controller for {', '.join(sorted(missing))}")
        # Remove cgroups of killed services. A cgroup's name has the process id of its service.
        for group in self._folder.glob(f"{_RUN}*"):
            if not Path("/proc", group.name.removeprefix(_RUN).partition("-")[0]).exists():
                _write_file(group, "cgroup.kill", "1")
                with suppress(OSError):  # its processes are still ending: the next start removes it
                    group.rmdir()
        inner = _read_file(self._folder, "cgroup.procs").split()
        if inner:
            service = self._folder / SERVICE
            service.mkdir(exist_ok=True)
            for pid in inner:
                with suppress(ProcessLookupError):
                    _write_file(service, "cgroup.procs", pid)
        _write_file(self._folder, "cgroup.subtree_control", " ".join(f"+{kind}" for kind in sorted(wanted)))

    def _try_run(self) -> None:
        """Do everything that a run needs, on a process that sleeps."""
        folder = self.create_meter().folder
        with subprocess.Popen(["sleep", f"{_END_S:g}"]) as sleeping:
            try:
                folder.mkdir()
                _write_limits(folder, Limits(), self._cpus)
                _write_file(folder, "cgroup.procs", str(sleeping.pid))
            finally:
                sleeping.kill()
                sleeping.wait()
                _remove_group(folder)


class CgroupMeter:
    """`Meter` by one cgroup."""

    def __init__(self, folder: Path, cpus: float | None) -> None:
        self.folder = folder
        self._cpus = cpus
        self._roots: Sequence[int] = (0,)
        self._limits = Limits()

    async def enter(self, roots: Sequence[int]) -> None:
        """See `Meter.enter`. Uses a thread: moving processes waits for an RCU grace period of the kernel."""
        self._roots = roots
        try:
            await run_in_thread(self._enter)
        except OSError as error:
            raise SandboxBroken(f"the run's cgroup could not be made: {error}") from error

    def _enter(self) -> None:
        self.folder.mkdir()
        for pid in list_process_tree(self._roots):
            _write_file(self.folder, "cgroup.procs", str(pid))

    def limit(self, limits: Limits) -> None:
        self._limits = limits
        try:
            _write_limits(self.folder, limits, self._cpus)
        except OSError as error:
            raise SandboxBroken(f"the run's cgroup could not be limited: {error}") from error

    async def watch_limits(self) -> ExceededLimit:
        init = self._roots[0]
        return await poll_limits(init, lambda: check_sockets(init, self._limits) or check_inodes(init, self._limits))

    def get_usage(self) -> SandboxUsage:
        """See `Meter.get_usage`. The peak is the kernel's own figure (since Linux 5.19)."""
        if not self.folder.exists():
            return SandboxUsage()
        peak = int(_read_file(self.folder, "memory.peak")) if (self.folder / "memory.peak").exists() else None
        events = dict(line.split() for line in _read_file(self.folder, "memory.events").splitlines())
        if int(events["oom_kill"]) == 0:
            return SandboxUsage(peak)
        return SandboxUsage(
            peak, ExceededLimit(RunStatus.MEMORY, f"{self._limits.memory_bytes // MIB} MiB of memory, the limit")
        )

    async def leave(self) -> None:
        """See `Meter.leave`. Raises TimeoutError if the kernel has not ended killed processes in ten seconds."""
        if self.folder.exists():
            await run_in_thread(partial(_remove_group, self.folder))


def _remove_group(folder: Path) -> None:
    """Kill the processes of a cgroup and remove it."""
    until = time.monotonic() + _END_S
    while folder.exists():
        _write_file(folder, "cgroup.kill", "1")
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > until:
                raise TimeoutError(f"{folder} still has processes {_END_S:g} s after they were killed") from error
            time.sleep(_RETRY_S)


def _write_limits(folder: Path, limits: Limits, cpus: float | None) -> None:
    _write_file(folder, "memory.max", str(limits.memory_bytes))
    _write_file(folder, "memory.oom.group", "1")  # out of memory, the kernel kills the run as a whole
    _write_file(folder, "pids.max", str(limits.processes))
    if cpus is not None:
        _write_file(folder, "cpu.max", f"{int(cpus * _PERIOD_US)} {_PERIOD_US}")
    if (folder / "memory.swap.max").exists():  # absent on a kernel without swap
        _write_file(folder, "memory.swap.max", "0")


def _read_file(folder: Path, file: str) -> str:
    return (folder / file).read_text()


def _write_file(folder: Path, file: str, value: str) -> None:
    """Write in one call, as the kernel requires, and never create a file."""
    descriptor = os.open(folder / file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
