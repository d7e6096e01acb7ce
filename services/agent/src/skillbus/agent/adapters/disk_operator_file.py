"""The operator's file of MCP servers on disk. It names commands to start, so no other user may be able to write it."""

import asyncio
import os
import stat
import time
from pathlib import Path
from typing import Final, TypeAlias

from skillbus.agent.domain.servers.operator_file import OperatorFileError

_FILE_BYTES: Final = 1024 * 1024
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MISSING_S: Final = 1.5
"""An absent file counts as removed after this time: some editors remove a file before they write it again."""

_Signature: TypeAlias = tuple[int, ...]


class DiskOperatorFile:
    """Implements `OperatorFile`. The file may be a link, as in a volume of Kubernetes."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._last: _Signature | None = None
        self._was_read = False
        self._missing_since: float | None = None

    async def has_changed(self) -> bool:
        now = await asyncio.to_thread(self._sign)
        if now is not None or self._last is None or not self._was_read:
            self._missing_since = None
            return now != self._last or not self._was_read
        self._missing_since = self._missing_since or time.monotonic()
        return time.monotonic() - self._missing_since >= _MISSING_S

    async def read(self) -> bytes | None:
        self._last, self._was_read = await asyncio.to_thread(self._sign), True
        return await asyncio.to_thread(read_operator_file, self._path)

    def _sign(self) -> _Signature | None:
        try:
            found, folder = self._path.stat(), self._path.parent.stat()
        except OSError:
            return None
        return folder.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_operator_file(path: Path) -> bytes | None:
    """Return the content of the file; None if it does not exist.

    Raises:
        OperatorFileError: It cannot be read, is too large, or somebody else may write it.
    """
    try:
        # A pipe without a writer must not be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            check_owner(path, os.fstat(file.fileno()))
            check_folder(path.parent)
            content: bytes = file.read(_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _FILE_BYTES:
        raise OperatorFileError(f"{path} has more than {_FILE_BYTES} bytes: make it smaller")
    return content


def check_owner(path: Path, found: os.stat_result) -> None:
    """Raise OperatorFileError unless only the user who runs this process, or root, may write the file."""
    if not stat.S_ISREG(found.st_mode):
        raise OperatorFileError(f"{path} is not a plain file")
    if found.st_uid not in (os.geteuid(), 0):
        raise OperatorFileError(
            f"{path} belongs to another user (uid {found.st_uid}): run `chown {os.geteuid()} {path}` as root"
        )
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise OperatorFileError(f"{path} can be written by other users: run `chmod go-w {path}`")


def check_folder(folder: Path) -> None:
    """Raise OperatorFileError if every user may replace files of the folder."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise OperatorFileError(f"{folder} can be written by every user: run `chmod o-w {folder}`")
