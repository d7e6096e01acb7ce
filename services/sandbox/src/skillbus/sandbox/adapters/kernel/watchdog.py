"""Metering by polling: memory of the whole process tree, sockets and inodes, which resource limits cannot bound.

The kernel notifies nobody when a process grows, except through a cgroup, which is not always available.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.isolation import ExceededLimit, SandboxUsage
from skillbus.sandbox.domain.run.limits import MIB, Limits

POLL_S: Final = 0.02
_KIB: Final = 1024
_WRITABLE: Final = ("work", "tmp", "dev/shm")
_PROC: Final = Path("/proc")
_MAPPING_BYTES: Final = 256
"""Kernel memory of one mapping, at least. Measured: 229 bytes each for sixty thousand."""
_PAGE_KIB: Final = 4
_FLAGS: Final = 5
"""Index of the flags among the numbers after the state in `/proc/PID/stat`. Source: proc(5), field 9."""
_PF_EXITING: Final = 0x4
"""Source: `include/linux/sched.h`."""
_SOCKETS: Final = re.compile(r"^(sockets: used|TCP: inuse|TCP6: inuse) (\d+)", re.MULTILINE)


class Watchdog:
    """`Metering` that works on every machine."""

    def prepare(self) -> str:
        return f"memory is limited by a watchdog that looks every {1000 * POLL_S:.0f} ms"

    def create_meter(self) -> "WatchdogMeter":
        return WatchdogMeter()


class WatchdogMeter:
    """`Meter` that looks at a process tree every 20 ms."""

    def __init__(self) -> None:
        self._roots: Sequence[int] = (0,)
        self._limits = Limits()
        self._peak_bytes: int | None = None

    async def enter(self, roots: Sequence[int]) -> None:
        self._roots = roots

    def limit(self, limits: Limits) -> None:
        self._limits = limits

    async def watch_limits(self) -> ExceededLimit:
        return await poll_limits(self._roots[0], self._check_all)

    def get_usage(self) -> SandboxUsage:
        """See `Meter.get_usage`. The peak is the largest value seen; pages shared by forks count in each process."""
        return SandboxUsage(self._peak_bytes)

    async def leave(self) -> None:
        """See `Meter.leave`."""

    def _check_all(self) -> ExceededLimit | None:
        init, limit = self._roots[0], self._limits.memory_bytes
        size = measure_memory(self._roots, limit)
        self._peak_bytes = max(self._peak_bytes or 0, size)
        if size > limit:
            return ExceededLimit(RunStatus.MEMORY, f"{size // MIB} MiB of memory, the limit is {limit // MIB} MiB")
        return check_sockets(init, self._limits) or check_inodes(init, self._limits)


async def poll_limits(init: int, check: Callable[[], ExceededLimit | None]) -> ExceededLimit:
    """Call `check` every 20 ms until it returns an excess. `init` is the sandbox's process 1.

    The first check comes after the first pause, since a run starts with the memory of its sandbox. If the kernel denies
    access twice in a row while `init` runs, the sandbox cannot be watched, and that is the excess.
    """
    denied = False
    while True:
        await asyncio.sleep(POLL_S)
        try:
            excess = check()
        except PermissionError:
            if denied and not is_ending(init):
                return ExceededLimit(RunStatus.KILLED, "the service may not look into the sandbox that it must watch")
            denied = True
        else:
            denied = False
            if excess is not None:
                return excess


def measure_memory(roots: Sequence[int], enough: int) -> int:
    """Return the bytes of memory of a process tree, with the kernel's page tables and mappings.

    The cheap figure counts a page shared by forks in each process. If it exceeds `enough`, the proportional figure,
    which is slow to read, replaces it. Mappings are counted only if their possible number would exceed `enough`.
    """
    tree = tuple(list_process_tree(roots))
    counted = [_read_cheap_bytes(pid) for pid in tree]
    cheap = sum(resident for resident, _ in counted)
    if cheap + sum(mappings for _, mappings in counted) <= enough:
        return cheap
    mappings = sum(map(_count_mapping_bytes, tree))
    return cheap + mappings if cheap + mappings <= enough else sum(map(_read_proportional_bytes, tree)) + mappings


def check_sockets(init: int, limits: Limits) -> ExceededLimit | None:
    """Check the number of sockets in the sandbox's network: their buffers are kernel memory of no process."""
    try:
        counts = [_read_text(init, f"net/{name}") for name in ("sockstat", "sockstat6")]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # the sandbox is ending; if access is denied for good, `check_inodes` finds it
    found = {name: int(number) for name, number in _SOCKETS.findall("".join(counts))}
    # A TCP connection that nobody has accepted, or closed with unsent data, is in use but belongs to no process.
    used = max(found["sockets: used"], found["TCP: inuse"] + found.get("TCP6: inuse", 0))
    if used <= limits.sockets:
        return None
    return ExceededLimit(RunStatus.MEMORY, f"{used} sockets, the limit is {limits.sockets}")


def check_inodes(init: int, limits: Limits) -> ExceededLimit | None:
    """Check the number of files on the sandbox's writable file systems.

    Raises:
        PermissionError: The kernel denies access: for good, or because the ending process has released its memory.
    """
    try:
        used = sum(_count_inodes(_PROC / str(init) / "root" / folder) for folder in _WRITABLE)
    except (FileNotFoundError, ProcessLookupError):
        return None
    if used <= limits.inodes:
        return None
    return ExceededLimit(RunStatus.INODES, f"{used} files, the limit is {limits.inodes}")


def is_ending(pid: int) -> bool:
    """Return True if a process is exiting: the kernel sets the flag before it releases memory, a zombie comes later."""
    try:
        state, *numbers = _read_text(pid, "stat").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"} or bool(int(numbers[_FLAGS]) & _PF_EXITING)


def list_process_tree(roots: Iterable[int]) -> Iterator[int]:
    """Yield processes and their descendants. Process 1 of a sandbox adopts its orphans, so none is missed."""
    todo = list(roots)
    while todo:
        pid = todo.pop()
        yield pid
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in os.listdir(f"{_PROC}/{pid}/task"):  # noqa: PTH208 - polled fifty times a second
                todo.extend(map(int, _read_text(pid, f"task/{task}/children").split()))


def _read_cheap_bytes(pid: int) -> tuple[int, int]:
    """Return the bytes that a process holds, and the most that its mappings can take."""
    *held, mapped = _read_kibibytes(pid, "status", ("RssAnon:", "RssShmem:", "VmPTE:", "VmSize:"))
    return sum(held) * _KIB, mapped // _PAGE_KIB * _MAPPING_BYTES


def _count_mapping_bytes(pid: int) -> int:
    try:
        return _read_bytes(pid, "maps").count(b"\n") * _MAPPING_BYTES
    except PermissionError:
        return _read_cheap_bytes(pid)[1]  # the larger figure
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _read_proportional_bytes(pid: int) -> int:
    try:
        proportional = _read_kibibytes(pid, "smaps_rollup", ("Pss:",))
        return sum((*proportional, *_read_kibibytes(pid, "status", ("VmPTE:",)))) * _KIB
    except PermissionError:
        return _read_cheap_bytes(pid)[0]  # the larger figure


def _read_kibibytes(pid: int, file: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the number of each named line of a file; 0 for a missing line or file."""
    try:
        lines = _read_text(pid, file).split("\n")
    except (FileNotFoundError, ProcessLookupError):
        return (0,) * len(names)
    found = {name: int(line.split(None, 2)[1]) for line in lines for name in names if line.startswith(name)}
    return tuple(found.get(name, 0) for name in names)


def _read_text(pid: int, file: str) -> str:
    return _read_bytes(pid, file).decode(errors="replace")


def _read_bytes(pid: int, file: str) -> bytes:
    """Read a file of a process in a third of pathlib's time: it is done fifty times a second."""
    with FileIO(f"{_PROC}/{pid}/{file}") as opened:
        return opened.readall()


def _count_inodes(folder: Path) -> int:
    usage = os.statvfs(folder)
    return usage.f_files - usage.f_ffree
