"""What rlimits cannot bound, seen from the host: memory of the whole tree, sockets, and inodes.

It polls: the kernel tells nobody when a process grows, short of a cgroup, which is not always ours to make.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.metering import Excess, Usage
from skillbus.sandbox.domain.run.limits import MIB, Limits

POLL_S: Final = 0.02
_KIB: Final = 1024
_WRITABLE: Final = ("work", "tmp", "dev/shm")
_PROC: Final = Path("/proc")
_MAPPING_BYTES: Final = 256
"""That one takes of the kernel, at least: a process had 229 for each of sixty thousand."""
_PAGE_KIB: Final = 4
_FLAGS: Final = 5
"""Of the numbers after the state in `/proc/PID/stat`; source: proc(5), field 9."""
_PF_EXITING: Final = 0x4
"""Source: `include/linux/sched.h`."""


_SOCKETS: Final = re.compile(r"^(sockets: used|TCP: inuse|TCP6: inuse) (\d+)", re.MULTILINE)


class Watchdog:
    """`Metering` that needs nothing of the machine."""

    def prepare(self) -> str:
        """See `Metering.prepare`."""
        return f"memory is held by a watchdog that looks every {1000 * POLL_S:.0f} ms"

    def meter(self) -> "WatchdogMeter":
        """See `Metering.meter`."""
        return WatchdogMeter()


class WatchdogMeter:
    """`Meter` that looks at a tree from time to time."""

    def __init__(self) -> None:
        self._roots: Sequence[int] = (0,)
        self._limits = Limits()
        self._peak_bytes: int | None = None

    async def enter(self, roots: Sequence[int]) -> None:
        """See `Meter.enter`."""
        self._roots = roots

    def limit(self, limits: Limits) -> None:
        """See `Meter.limit`."""
        self._limits = limits

    async def watch(self) -> Excess:
        """See `Meter.watch`."""
        return await watch(self._roots[0], self._look)

    def usage(self) -> Usage:
        """See `Meter.usage`. The peak is of what was seen, and counts pages that forks share once for each."""
        return Usage(self._peak_bytes)

    async def leave(self) -> None:
        """See `Meter.leave`."""

    def _look(self) -> Excess | None:
        init = self._roots[0]
        return self._check_memory() or check_sockets(init, self._limits) or check_inodes(init, self._limits)

    def _check_memory(self) -> Excess | None:
        limit = self._limits.memory_bytes
        size = memory_of(self._roots, limit)
        self._peak_bytes = max(self._peak_bytes or 0, size)
        if size <= limit:
            return None
        return Excess(RunStatus.MEMORY, f"{size // MIB} MiB of memory, the limit is {limit // MIB} MiB")


async def watch(init: int, look: Callable[[], Excess | None]) -> Excess:
    """Look from time to time, until a look finds something; `init` is the process at which is looked.

    The first look is when something may have grown: at its start a run has what its sandbox was made with. What ends it
    is that a limit was passed, or that it may not be looked into, twice in a row and while it runs.
    """
    blind = False
    while True:
        await asyncio.sleep(POLL_S)
        try:
            excess = look()
        except PermissionError:
            if blind and not is_ending(init):
                return Excess(RunStatus.KILLED, "the service may not look into the sandbox that it must watch")
            blind = True
        else:
            blind = False
            if excess is not None:
                return excess


def memory_of(roots: Sequence[int], enough: int) -> int:
    """Bytes of the tree, with what the kernel holds for it: page tables and mappings, as many as are made and not used.

    The quick figure counts a page shared by a fork in each process, so one above `enough` is replaced by the
    proportional one. Mappings are counted when as many as there is room for would be too many.
    """
    tree = tuple(process_tree(roots))
    counted = [_counted(pid) for pid in tree]
    quick = sum(resident for resident, _ in counted)
    if quick + sum(mappings for _, mappings in counted) <= enough:
        return quick
    mappings = sum(map(_mappings_bytes, tree))
    return quick + mappings if quick + mappings <= enough else sum(map(_proportional_bytes, tree)) + mappings


def check_sockets(init: int, limits: Limits) -> Excess | None:
    """Whether the sandbox's network has too many sockets: what they buffer is kernel memory of no process."""
    try:
        counts = [_read(init, f"net/{name}") for name in ("sockstat", "sockstat6")]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it ended in this moment; one that may not be looked into is found by its inodes
    found = {name: int(number) for name, number in _SOCKETS.findall("".join(counts))}
    # A TCP connection that nobody has accepted, or that was closed with words unsaid, is in use and no process's.
    used = max(found["sockets: used"], found["TCP: inuse"] + found.get("TCP6: inuse", 0))
    return Excess(RunStatus.MEMORY, f"{used} sockets, the limit is {limits.sockets}") if used > limits.sockets else None


def check_inodes(init: int, limits: Limits) -> Excess | None:
    """Whether the sandbox's writable file systems hold too many files.

    Raises:
        PermissionError: the kernel lets nobody look: for good, or because the process has lost its memory, at its end.
    """
    try:
        used = sum(_inodes(_PROC / str(init) / "root" / folder) for folder in _WRITABLE)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Excess(RunStatus.INODES, f"{used} files, the limit is {limits.inodes}") if used > limits.inodes else None


def is_ending(pid: int) -> bool:
    """Whether it is on its way out: the kernel marks that before it takes the memory; a zombie it is long after."""
    try:
        state, *numbers = _read(pid, "stat").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"} or bool(int(numbers[_FLAGS]) & _PF_EXITING)


def process_tree(roots: Iterable[int]) -> Iterator[int]:
    """These and their descendants; orphans of a sandbox are its process 1's children, so nobody is missed."""
    todo = list(roots)
    while todo:
        pid = todo.pop()
        yield pid
        todo.extend(_children(pid))


def _children(pid: int) -> Iterator[int]:
    try:
        for task in os.listdir(f"{_PROC}/{pid}/task"):  # noqa: PTH208 - polled fifty times a second
            yield from map(int, _read(pid, f"task/{task}/children").split())
    except (FileNotFoundError, ProcessLookupError):
        return


def _counted(pid: int) -> tuple[int, int]:
    """Bytes that it holds, and that its mappings take at most."""
    *held, mapped = _kibibytes(pid, "status", ("RssAnon:", "RssShmem:", "VmPTE:", "VmSize:"))
    return sum(held) * _KIB, mapped // _PAGE_KIB * _MAPPING_BYTES


def _mappings_bytes(pid: int) -> int:
    try:
        return _bytes(pid, "maps").count(b"\n") * _MAPPING_BYTES
    except PermissionError:
        return _counted(pid)[1]  # the larger figure
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        return sum((*_kibibytes(pid, "smaps_rollup", ("Pss:",)), *_kibibytes(pid, "status", ("VmPTE:",)))) * _KIB
    except PermissionError:
        return _counted(pid)[0]  # the larger figure


def _kibibytes(pid: int, file: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Each of these lines of a file; 0 where there is none."""
    try:
        lines = _read(pid, file).split("\n")
    except (FileNotFoundError, ProcessLookupError):
        return (0,) * len(names)
    found = {name: int(line.split(None, 2)[1]) for line in lines for name in names if line.startswith(name)}
    return tuple(found.get(name, 0) for name in names)


def _read(pid: int, file: str) -> str:
    return _bytes(pid, file).decode(errors="replace")


def _bytes(pid: int, file: str) -> bytes:
    """Of a process; in a third of pathlib's time, which counts: it is done fifty times a second."""
    with FileIO(f"{_PROC}/{pid}/{file}") as opened:
        return opened.readall()


def _inodes(folder: Path) -> int:
    usage = os.statvfs(folder)
    return usage.f_files - usage.f_ffree
