"""The folder of one sandbox: what a run is given appears in it after the sandbox was started.

The sandbox binds `skill` and `in` read-only when both are still empty. A skill's files are then linked, so that a
sandbox that waits can become that of any skill, and copied where they cannot be linked or the run's user could not
read them. The folder lies where every user can walk to, and belongs to the run's user alone: a service that is root
keeps its skills where it likes, often below a home folder that nobody else may enter. Who made it holds a lock on it;
one that nobody holds was left by a service that was killed.
"""

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from skillbus.sandbox.domain.errors import RunRejected, SandboxBroken

_T = TypeVar("_T")
_PREFIX: Final = "skillbus-run-"
_YOUNG_S: Final = 60.0
"""A folder is locked right after it is made, and not looked at before it is so old."""
_SHARED: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - a folder of the user's own is made in it


class Slot:
    """Made by `Slot.make`, removed by `remove`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.skill = folder / "skill"
        self.given = folder / "in"

    @classmethod
    def make(cls, uid: int | None) -> Self:
        """An empty one for the runs of the user `uid`, or of the service's own.

        Raises:
            SandboxBroken: There is no folder to make it in.
        """
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared_folder()))
            slot = cls(folder)
            for inner in (slot.skill, slot.given):
                inner.mkdir(mode=0o755)
                inner.chmod(0o755)
            if uid is not None:
                os.chown(folder, uid, uid)
        except OSError as error:
            raise SandboxBroken(f"no folder could be made for the run: {error}") from error
        return slot

    async def fill(self, skill: Path, given: Mapping[str, bytes]) -> None:
        """Let a skill and the files of its run appear in the sandbox.

        Raises:
            RunRejected: The skill's folder cannot be read.
            SandboxBroken: The files cannot be written.
        """
        await in_thread(partial(self._fill, skill, given))

    def _fill(self, skill: Path, given: Mapping[str, bytes]) -> None:
        try:
            shutil.copytree(skill, self.skill, symlinks=True, copy_function=_link, dirs_exist_ok=True)
            for folder in (self.skill, *(path for path in self.skill.rglob("*") if _is_folder(path))):
                folder.chmod(0o755)
        except (OSError, shutil.Error) as error:
            raise RunRejected(f"the skill's folder cannot be read: {error}") from error
        try:
            for name, content in given.items():
                path = self.given / name
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o444)
        except OSError as error:
            raise SandboxBroken(f"the files of the run could not be written: {error}") from error

    async def remove(self) -> None:
        """The folder and all that is in it."""
        try:
            await in_thread(partial(shutil.rmtree, self._folder, ignore_errors=True))
        finally:
            os.close(self._lock)


def sweep(owners: Collection[int]) -> None:
    """Remove what services that were killed have left of runs of these users: skills, and what runs were given."""
    for folder in shared_folder().glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it goes in this moment, is another's, or is held
            found = folder.lstat()
            if found.st_uid in owners and time.time() - found.st_mtime > _YOUNG_S:
                _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _link(source: str, target: str) -> None:
    """Links what all may read; a copy of anything else is made readable, and the skill's own file stays as it is."""
    if not Path(source).stat().st_mode & stat.S_IROTH:
        copy = Path(shutil.copy(source, target))
        copy.chmod(copy.stat().st_mode & 0o755 | 0o644)
        return
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy(source, target)


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


def shared_folder() -> Path:
    """A folder for temporary files that every user can walk to. Raises SandboxBroken when there is none."""
    for folder in (Path(tempfile.gettempdir()), *_SHARED):
        if folder.is_dir() and is_open_to_all(folder):
            return folder
    raise SandboxBroken("there is no folder for temporary files that all users can enter: set TMPDIR to one")
