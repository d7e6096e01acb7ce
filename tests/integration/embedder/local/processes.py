"""What the system says of processes, waited for without polling."""

import os
import select
from pathlib import Path

WAIT_S = 5.0


_EARLIER = set[int]()
"""Children of this process that other tests have left behind."""


def forget_earlier_children() -> None:
    """Exclude the present children of this process from `children`, at the start of a test."""
    _EARLIER.update(children())


def children(of: int | str = "self") -> set[int]:
    """Return the processes that a process has started during this test and not yet collected."""
    while True:
        try:
            tasks = list(Path(f"/proc/{of}/task").iterdir())
            return {int(pid) for task in tasks for pid in (task / "children").read_text().split()} - _EARLIER
        except (FileNotFoundError, ProcessLookupError):  # a thread ended, and another one has its children now
            if not Path(f"/proc/{of}").exists():
                raise


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def ends(pid: int) -> bool:
    """Whether a process ends within five seconds. One that ended and is not collected has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], WAIT_S)[0])
    finally:
        os.close(watched)


def environment(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
