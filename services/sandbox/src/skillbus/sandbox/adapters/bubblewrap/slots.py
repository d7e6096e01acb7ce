"""The folder of one sandbox: what a run is given appears in it after the sandbox was started.

The sandbox binds `skill` and `in` read-only when both are still empty. A skill's files are then linked, so that a
sandbox that waits can become that of any skill, and copied where they cannot be linked or the run's user could not
read them. The folder lies where every user can walk to, and belongs to the run's user alone: a service that is root
keeps its skills where it likes, often below a home folder that nobody else may enter. Who made it holds a lock on it;
one that nobody holds was left by a service that was killed.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from skillbus.sandbox.adapters.host_folders import find_shared_folder
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import RunRejected, SandboxBroken

_PREFIX: Final = "skillbus-run-"
_FEW: Final = 32
"""Entries of a folder that are done in the loop's thread: each takes some 10 µs."""
_SHORT_BYTES: Final = 64 * 1024
"""So is writing a file of that size."""
_YOUNG_S: Final = 60.0
"""A folder is locked right after it is made, and not looked at before it is so old."""


class Slot:
    """Made by `Slot.make`, removed by `remove`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.skill = folder / "skill"
        self.given = folder / "in"

    @classmethod
    def make(cls, uid: int | None, within: Path | None = None) -> Self:
        """An empty one for the runs of the user `uid`, or of the service's own; in the shared folder, if that is known.

        Raises:
            SandboxBroken: There is no folder to make it in.
        """
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within or find_shared_folder()))
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
        try:
            await _done(_linking(str(skill), str(self.skill)))
        except OSError as error:
            raise RunRejected(f"the skill's folder cannot be read: {error}") from error
        try:
            await _done(_writing(self.given, given))
        except OSError as error:
            raise SandboxBroken(f"the files of the run could not be written: {error}") from error

    def remove(self) -> None:
        """The folder and all that is in it. Blocking."""
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
        finally:
            os.close(self._lock)


Steps = Iterator[bool]
"""Work that is done step by step: True before one that may take long."""


async def _done(steps: Steps) -> None:
    """A few short steps are done where they stand, in less than the way to a thread takes; the rest in one."""
    for number, long in enumerate(steps):
        if long or number == _FEW:
            await run_in_thread(partial(deque, steps, 0))
            return


def _linking(source: str, target: str) -> Steps:
    """Links what all may read; a copy of anything else is made readable, and the skill's own file stays as it is."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            yield False
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)  # noqa: PTH115, PTH211 - a thing of every file of every run
            elif entry.is_dir():
                os.mkdir(path)  # noqa: PTH102 - the same
                os.chmod(path, 0o755)  # noqa: PTH101, S103 - read-only in the sandbox
                yield from _linking(entry.path, path)
            elif not _is_linked(entry, path):
                yield True
                copy = Path(shutil.copy(entry.path, path))
                copy.chmod(copy.stat().st_mode & 0o755 | 0o644)


def _is_linked(entry: "os.DirEntry[str]", path: str) -> bool:
    if not entry.stat().st_mode & stat.S_IROTH:
        return False
    try:
        os.link(entry.path, path)
    except OSError:  # another file system, or one without links
        return False
    return True


def _writing(folder: Path, given: Mapping[str, bytes]) -> Steps:
    for name, content in given.items():
        yield len(content) > _SHORT_BYTES
        path = folder / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)


def sweep(owners: Collection[int]) -> None:
    """Remove what services that were killed have left of runs of these users: skills, and what runs were given."""
    for folder in find_shared_folder().glob(f"{_PREFIX}*"):
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
