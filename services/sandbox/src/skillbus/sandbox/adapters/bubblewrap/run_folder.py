"""Folder of one run on the host: the skill and the files of the run appear in it after the sandbox has started.

The sandbox binds its subfolders `skill` and `in` read-only while they are empty. The skill's files are then linked into
it, so that a warm sandbox can serve any skill; files that cannot be linked, or that the run's user cannot read, are
copied. The folder lies where every user can enter it and belongs to the run's user: a service that is root often keeps
its skills below a home folder that nobody else may enter. Its creator holds a lock on it; a folder without a lock was
left by a service that was killed.
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

from skillbus.sandbox.adapters.host import find_shared_folder, run_in_thread
from skillbus.sandbox.domain.errors import RunRejected, SandboxBroken

_PREFIX: Final = "skillbus-run-"
_FEW: Final = 32
"""Number of entries that are linked in the event loop's thread: each takes about 10 µs."""
_SHORT_BYTES: Final = 64 * 1024
"""Size of a file that is written in the event loop's thread."""
_YOUNG_S: Final = 60.0
"""Age from which a folder without a lock counts as left over: it is locked right after it is made."""

Steps = Iterator[bool]
"""Work done in steps. Yields True before a step that may take long."""


class RunFolder:
    """Folder of one run. Made by `create`, deleted by `remove`."""

    def __init__(self, folder: Path) -> None:
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = folder
        self.skill = folder / "skill"
        self.given = folder / "in"

    @classmethod
    def create(cls, user: int | None, within: Path | None = None) -> Self:
        """Create an empty folder for a run of `user`, or of the service's own user, in `within` or the shared folder.

        Raises SandboxBroken if it cannot be made.
        """
        try:
            folder = cls(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within or find_shared_folder())))
            for inner in (folder.skill, folder.given):
                inner.mkdir(mode=0o755)
                inner.chmod(0o755)
            if user is not None:
                os.chown(folder.path, user, user)
        except OSError as error:
            raise SandboxBroken(f"no folder could be made for the run: {error}") from error
        return folder

    async def fill(self, skill: Path, given: Mapping[str, bytes]) -> None:
        """Make a skill and the files of its run appear in the sandbox.

        Raises:
            RunRejected: The skill's folder cannot be read.
            SandboxBroken: The files cannot be written.
        """
        try:
            await _run_steps(_link_files(str(skill), str(self.skill)))
        except OSError as error:
            raise RunRejected(f"the skill's folder cannot be read: {error}") from error
        try:
            await _run_steps(_write_files(self.given, given))
        except OSError as error:
            raise SandboxBroken(f"the files of the run could not be written: {error}") from error

    def remove(self) -> None:
        """Delete the folder and everything in it. Blocking."""
        try:
            shutil.rmtree(self.path, ignore_errors=True)
        finally:
            os.close(self._lock)


async def _run_steps(steps: Steps) -> None:
    """Run a few short steps right here, which takes less time than reaching a thread; run the rest in a thread."""
    for number, is_long in enumerate(steps):
        if is_long or number == _FEW:
            await run_in_thread(partial(deque, steps, 0))
            return


def _link_files(source: str, target: str) -> Steps:
    """Link files that every user can read; copy all others and make the copies readable."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            yield False
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)  # noqa: PTH115, PTH211 - done for every file of every run
            elif entry.is_dir():
                os.mkdir(path)  # noqa: PTH102 - the same
                os.chmod(path, 0o755)  # noqa: PTH101, S103 - read-only in the sandbox
                yield from _link_files(entry.path, path)
            elif not _try_link(entry, path):
                yield True
                copy = Path(shutil.copy(entry.path, path))
                copy.chmod(copy.stat().st_mode & 0o755 | 0o644)


def _try_link(entry: "os.DirEntry[str]", path: str) -> bool:
    if not entry.stat().st_mode & stat.S_IROTH:
        return False
    try:
        os.link(entry.path, path)
    except OSError:  # another file system, or one without links
        return False
    return True


def _write_files(folder: Path, given: Mapping[str, bytes]) -> Steps:
    for name, content in given.items():
        yield len(content) > _SHORT_BYTES
        path = folder / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)


def remove_left_folders(owners: Collection[int]) -> None:
    """Delete the folders that killed services left of runs of these users."""
    for folder in find_shared_folder().glob(f"{_PREFIX}*"):
        with suppress(OSError):  # already deleted, another user's, or locked
            found = folder.lstat()
            if found.st_uid in owners and time.time() - found.st_mtime > _YOUNG_S:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                finally:
                    os.close(lock)
