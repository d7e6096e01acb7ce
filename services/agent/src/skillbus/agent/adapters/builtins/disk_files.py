"""Files of projects on disk, in one folder for each project: `<root>/<project>/…`.

A path is walked from one open folder to the next, and none may be a symbolic link, so that nothing that is placed there
between a check and its use leads elsewhere. A file is written to `<root>/.incoming`, then moved atomically.
"""

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.agent.adapters.builtins.folders import FolderMissingError, OpenFolder, explain_error, open_folder
from skillbus.agent.domain.builtins.files import FileEntry, FileExcerpt, Parts
from skillbus.agent.domain.errors import BuiltinFailedError

INCOMING: Final = ".incoming"
"""Not a valid name of a project."""
ABANDONED_S: Final = 3_600.0
"""Files in `INCOMING` that are older belong to a writer that died."""


@dataclass(frozen=True, slots=True)
class FileQuota:
    """Storage limit of a project."""

    total_bytes: int = 64 * 1024 * 1024
    entries: int = 2_000
    """Number of files and folders."""


class DiskFiles:
    """Implements `ProjectFiles` in one folder. It works in threads; writes are serialized."""

    def __init__(self, root: Path, quota: FileQuota) -> None:
        self._root = root
        self._quota = quota
        self._writing = threading.Lock()

    async def read_file(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> FileExcerpt:
        return await asyncio.to_thread(self._read, project, parts, offset, limit_bytes)

    async def write_file(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        return await asyncio.to_thread(self._write, project, parts, data, replace)

    async def list_entries(self, project: str, parts: Parts) -> tuple[FileEntry, ...]:
        return await asyncio.to_thread(self._list, project, parts)

    def _read(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> FileExcerpt:
        with self._open(project, parts[:-1]) as folder, folder.open_file(parts[-1]) as file:
            size = os.fstat(file).st_size
            return FileExcerpt(os.pread(file, limit_bytes, offset), offset, size)

    def _list(self, project: str, parts: Parts) -> tuple[FileEntry, ...]:
        try:
            with self._open(project, parts) as folder:
                return tuple(sorted(folder.list_entries(), key=lambda entry: entry.name))
        except FolderMissingError:
            if parts:
                raise
            return ()

    def _write(self, project: str, parts: Parts, data: bytes, replace: bool) -> bool:
        with self._writing:
            old = self._find_size(project, parts)
            if old is not None and not replace:
                raise BuiltinFailedError(f"{'/'.join(parts)} exists already: choose another name, or overwrite it")
            self._check_room(project, len(data) - (old or 0), new=0 if old is not None else len(parts))
            self._make_root()
            with self._open(project, parts[:-1], make=True) as folder, self._incoming(data) as (incoming, name):
                folder.move_in(incoming, name, parts[-1])
            return old is not None

    def _find_size(self, project: str, parts: Parts) -> int | None:
        try:
            with self._open(project, parts[:-1]) as folder:
                return folder.get_size(parts[-1])
        except FolderMissingError:
            return None

    def _make_root(self) -> None:
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise explain_error("the folder of all files", error) from None

    @contextmanager
    def _open(self, project: str, parts: Parts, *, make: bool = False) -> Iterator[OpenFolder]:
        with open_folder(self._root, (project, *parts), make=make) as folder:
            yield folder

    @contextmanager
    def _incoming(self, data: bytes) -> Iterator[tuple[OpenFolder, str]]:
        """Write the bytes to disk under a random name; the file is deleted at the end unless it was moved."""
        name = secrets.token_hex(16)
        with open_folder(self._root, (INCOMING,), make=True) as folder:
            _delete_abandoned(folder)
            try:
                folder.create_file(name, data)
                yield folder, name
            finally:
                folder.delete_file(name)

    def _check_room(self, project: str, more_bytes: int, *, new: int) -> None:
        """Check the quota before anything is created. `new` counts all folders of the path, existing ones too."""
        try:
            with self._open(project, ()) as folder:
                kept_bytes, entries = folder.measure()
        except FolderMissingError:
            kept_bytes, entries = 0, 0
        if more_bytes > 0 and kept_bytes + more_bytes > self._quota.total_bytes:
            raise BuiltinFailedError(
                f"the project keeps {kept_bytes} bytes of files and may keep {self._quota.total_bytes}: "
                "write less, or shorten one of its files"
            )
        if new and entries + new > self._quota.entries:
            raise BuiltinFailedError(f"the project has {entries} files and folders and may have {self._quota.entries}")


def _delete_abandoned(folder: OpenFolder) -> None:
    """Delete the files of writers that died."""
    oldest = time.time() - ABANDONED_S
    for entry in folder.list_entries():
        if folder.get_mtime(entry.name) < oldest:
            folder.delete_file(entry.name)
