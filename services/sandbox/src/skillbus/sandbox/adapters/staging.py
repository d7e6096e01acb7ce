"""Skills where a run's own user can read them.

A service that is root keeps its skills where it likes, often below a home folder that nobody else may enter; the user
that bubblewrap runs as cannot bind what it cannot walk to. Such a skill is copied for the run, to a folder of that user
alone.
"""

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from skillbus.sandbox.domain.errors import RunRejected, SandboxBroken

_T = TypeVar("_T")
_SHARED: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - a folder of the user's own is made in it


@asynccontextmanager
async def visible(root: Path, script: str, uid: int | None) -> AsyncIterator[Path]:
    """`root`, or a copy of it that `uid` can read, removed at the end.

    Raises:
        RunRejected: when it cannot be copied.
        SandboxBroken: when there is no folder to copy it to.
    """
    if uid is None or (is_open_to_all(root) and is_open_to_all(root / script)):
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="skillbus-run-", dir=_shared_folder()) as folder:
        copy = Path(folder, "skill")
        await in_thread(partial(_copy, root, copy))
        os.chown(folder, uid, uid)
        yield copy


def is_open_to_all(path: Path) -> bool:
    """Whether every user can walk to `path` and read it."""
    real = path.resolve()
    readable = real.stat().st_mode & stat.S_IROTH
    entered = [real, *real.parents] if real.is_dir() else real.parents
    return bool(readable) and all(folder.stat().st_mode & stat.S_IXOTH for folder in entered)


async def in_thread(work: Callable[[], _T]) -> _T:
    """`work` in a thread; cancelled, it is waited for, so that what it works on can be removed."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _shared_folder() -> Path:
    for folder in (Path(tempfile.gettempdir()), *_SHARED):
        if folder.is_dir() and is_open_to_all(folder):
            return folder
    raise SandboxBroken("there is no folder for temporary files that all users can enter: set TMPDIR to one")


def _copy(root: Path, copy: Path) -> None:
    try:
        shutil.copytree(root, copy, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise RunRejected(f"the skill's folder cannot be read: {error}") from error
    for path in (copy, *_entries(copy)):
        path.chmod(path.stat().st_mode & 0o755 | (0o755 if path.is_dir() else 0o644))


def _entries(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_symlink())
