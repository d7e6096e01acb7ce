"""Host of the service: folders that every user can enter, worker threads, readable descriptors."""

import asyncio
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from skillbus.sandbox.domain.errors import SandboxBroken

_T = TypeVar("_T")
_SHARED: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - the service makes a folder of its own in it


async def run_in_thread(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread. A cancelled caller still waits for its end, so that its files can be removed."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def wait_readable(descriptor: int) -> None:
    """Wait until `descriptor` has something to read, a connection to accept, or, for a pidfd, an ended process."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def is_open_to_all(path: Path) -> bool:
    """Return True if every user can enter the folders above `path` and read it."""
    real = path.resolve()
    readable = real.stat().st_mode & stat.S_IROTH
    entered = [real, *real.parents] if real.is_dir() else real.parents
    return bool(readable) and all(folder.stat().st_mode & stat.S_IXOTH for folder in entered)


def find_shared_folder() -> Path:
    """Return a folder for temporary files that every user can enter. Raises SandboxBroken if there is none."""
    for folder in (Path(tempfile.gettempdir()), *_SHARED):
        if folder.is_dir() and is_open_to_all(folder):
            return folder
    raise SandboxBroken("there is no folder for temporary files that all users can enter: set TMPDIR to one")
