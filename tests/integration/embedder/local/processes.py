"""What the system says of processes, waited for without polling."""

import os
import select
from pathlib import Path

WAIT_S = 5.0


def children(of: int | str = "self") -> set[int]:
    """Processes that a process has started and not yet collected."""
    tasks = Path(f"/proc/{of}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


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
