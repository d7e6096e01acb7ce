"""What rlimits cannot bound, seen from the host: memory of the whole tree, sockets, and inodes.

It polls: the kernel tells nobody when a process grows, short of a cgroup, which is not always ours to make.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.domain.limits import MIB, Limits

POLL_S: Final = 0.02
_KIB: Final = 1024
_WRITABLE: Final = ("work", "tmp", "dev/shm")
_PROC: Final = Path("/proc")
_FLAGS: Final = 5
"""Of the numbers after the state in `/proc/PID/stat`; source: proc(5), field 9."""
_PF_EXITING: Final = 0x4
"""Source: `include/linux/sched.h`."""


class Excess(NamedTuple):
    """A limit that was passed."""

    status: RunStatus
    detail: str


async def watch(init: int, limits: Limits) -> Excess:
    """Poll the tree under process `init`, in the host's numbering, until it passes a limit.

    What ends it is that a limit was passed, or that it may not be looked into, twice in a row and while it runs.
    """
    blind = False
    while True:
        try:
            excess = check_memory(init, limits) or check_sockets(init, limits) or check_inodes(init, limits)
        except PermissionError:
            if blind and not is_ending(init):
                return Excess(RunStatus.KILLED, "the service may not look into the sandbox that it must watch")
            blind = True
        else:
            blind = False
            if excess is not None:
                return excess
        await asyncio.sleep(POLL_S)


def check_memory(init: int, limits: Limits) -> Excess | None:
    """Whether the tree's memory is over its limit, page tables included: they hold what is mapped, not what is used.

    The quick figure counts a page shared by a fork in each process, so it is confirmed by the proportional one.
    """
    tree = tuple(process_tree(init))
    if sum(map(_resident_bytes, tree)) <= limits.memory_bytes:
        return None
    size = sum(map(_proportional_bytes, tree))
    if size <= limits.memory_bytes:
        return None
    return Excess(RunStatus.MEMORY, f"{size // MIB} MiB of memory, the limit is {limits.memory_bytes // MIB} MiB")


def check_sockets(init: int, limits: Limits) -> Excess | None:
    """Whether the sandbox's network has too many sockets: what they buffer is kernel memory of no process."""
    try:
        lines = (_PROC / str(init) / "net/sockstat").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it ended in this moment; one that may not be looked into is found by its inodes
    used = next((int(line.split()[2]) for line in lines if line.startswith("sockets: used ")), 0)
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
        state, *numbers = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"} or bool(int(numbers[_FLAGS]) & _PF_EXITING)


def process_tree(init: int) -> Iterator[int]:
    """`init` and its descendants; orphans are process 1's children, so nobody is missed."""
    todo = [init]
    while todo:
        pid = todo.pop()
        yield pid
        todo.extend(_children(pid))


def _children(pid: int) -> Iterator[int]:
    try:
        for task in os.listdir(_PROC / str(pid) / "task"):  # noqa: PTH208 - polled fifty times a second
            yield from map(int, (_PROC / str(pid) / "task" / task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return


def _resident_bytes(pid: int) -> int:
    return sum(_kibibytes(pid, "status", ("RssAnon:", "RssShmem:", "VmPTE:"))) * _KIB


def _proportional_bytes(pid: int) -> int:
    try:
        pages, tables = _kibibytes(pid, "smaps_rollup", ("Pss:",)), _kibibytes(pid, "status", ("VmPTE:",))
        return (sum(pages) + sum(tables)) * _KIB
    except PermissionError:
        return _resident_bytes(pid)  # the larger figure


def _kibibytes(pid: int, file: str, names: tuple[str, ...]) -> Iterator[int]:
    try:
        lines = (_PROC / str(pid) / file).read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    yield from (int(line.split()[1]) for line in lines if line.startswith(names))


def _inodes(folder: Path) -> int:
    usage = os.statvfs(folder)
    return usage.f_files - usage.f_ffree
