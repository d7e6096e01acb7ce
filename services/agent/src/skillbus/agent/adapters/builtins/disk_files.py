"""Files of projects on a disk: `<root>/<project>/…`, one folder a project.

A path is walked from an open folder to the next, none of which may be a symbolic link, so that nothing that is put
there between a check and its use leads elsewhere. A file is written beside all projects, in `<root>/.incoming`, and
then moved to where it belongs, in one step.
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

from skillbus.agent.adapters.builtins.folders import Folder, FolderMissingError, entered, unusable
from skillbus.agent.domain.builtins.errors import ToolFailedError
from skillbus.agent.domain.builtins.files import Entry, Excerpt, Parts

INCOMING: Final = ".incoming"
"""No project has such a name."""
ABANDONED_S: Final = 3_600.0
"""Older files there are of a writer that is no more."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a project may keep."""

    total_bytes: int = 64 * 1024 * 1024
    entries: int = 2_000
    """Files and folders."""


class DiskFiles:
    """The port `ProjectFiles` on one folder. Works in threads; writes come one after the other."""

    def __init__(self, root: Path, allowance: Allowance) -> None:
        self._root = root
        self._allowance = allowance
        self._writing = threading.Lock()

    async def read(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> Excerpt:
        return await asyncio.to_thread(self._read, project, parts, offset, limit_bytes)

    async def write(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        return await asyncio.to_thread(self._write, project, parts, data, replace)

    async def entries(self, project: str, parts: Parts) -> tuple[Entry, ...]:
        return await asyncio.to_thread(self._entries, project, parts)

    def _read(self, project: str, parts: Parts, offset: int, limit_bytes: int) -> Excerpt:
        with self._walked(project, parts[:-1]) as folder, folder.file(parts[-1]) as file:
            size = os.fstat(file).st_size
            return Excerpt(os.pread(file, limit_bytes, offset), offset, size)

    def _entries(self, project: str, parts: Parts) -> tuple[Entry, ...]:
        try:
            with self._walked(project, parts) as folder:
                return tuple(sorted(folder.entries(), key=lambda entry: entry.name))
        except FolderMissingError:
            if parts:
                raise
            return ()

    def _write(self, project: str, parts: Parts, data: bytes, replace: bool) -> bool:
        with self._writing:
            old = self._size_of(project, parts)
            if old is not None and not replace:
                raise ToolFailedError(f"{'/'.join(parts)} is there already: choose another name, or overwrite it")
            self._check_room(project, len(data) - (old or 0), new=0 if old is not None else len(parts))
            self._make_root()
            with self._walked(project, parts[:-1], make=True) as folder, self._incoming(data) as (incoming, name):
                folder.take(incoming, name, parts[-1])
            return old is not None

    def _size_of(self, project: str, parts: Parts) -> int | None:
        try:
            with self._walked(project, parts[:-1]) as folder:
                return folder.size_of(parts[-1])
        except FolderMissingError:
            return None

    def _make_root(self) -> None:
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable("the folder of all files", error) from None

    @contextmanager
    def _walked(self, project: str, parts: Parts, *, make: bool = False) -> Iterator[Folder]:
        with entered(self._root, (project, *parts), make=make) as folder:
            yield folder

    @contextmanager
    def _incoming(self, data: bytes) -> Iterator[tuple[Folder, str]]:
        """The bytes on the disk, under a name that nobody knows; gone in the end unless they were taken."""
        name = secrets.token_hex(16)
        with entered(self._root, (INCOMING,), make=True) as folder:
            _sweep(folder)
            try:
                folder.put(name, data)
                yield folder, name
            finally:
                folder.drop(name)

    def _check_room(self, project: str, more_bytes: int, *, new: int) -> None:
        """Before anything is made. `new` counts the folders on the way, whether they are there or not."""
        try:
            with self._walked(project, ()) as folder:
                kept_bytes, entries = folder.weight()
        except FolderMissingError:
            kept_bytes, entries = 0, 0
        if more_bytes > 0 and kept_bytes + more_bytes > self._allowance.total_bytes:
            raise ToolFailedError(
                f"the project keeps {kept_bytes} bytes of files and may keep {self._allowance.total_bytes}: "
                "write less, or make a file of it smaller"
            )
        if new and entries + new > self._allowance.entries:
            raise ToolFailedError(f"the project has {entries} files and folders and may have {self._allowance.entries}")


def _sweep(folder: Folder) -> None:
    """Take away what writers left that died."""
    oldest = time.time() - ABANDONED_S
    for entry in folder.entries():
        if folder.changed_at(entry.name) < oldest:
            folder.drop(entry.name)
