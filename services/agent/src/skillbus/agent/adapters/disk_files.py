"""Files of projects on disk, in one folder for each project: `<root>/<project>/…`.

A path is walked from one open folder to the next, and none may be a symbolic link, so that nothing that is placed there
between a check and its use leads elsewhere. A file is written to `<root>/.incoming`, then moved atomically.
"""

import asyncio
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.agent.domain.builtins.files import FileEntry, FileExcerpt, FileKind, Parts
from skillbus.agent.domain.errors import BuiltinFailedError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Does not wait for the other end of a pipe."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
INCOMING: Final = ".incoming"
"""Not a valid name of a project."""
ABANDONED_S: Final = 3_600.0
"""Files in `INCOMING` that are older belong to a writer that died."""


class FolderMissingError(BuiltinFailedError):
    """The folder does not exist."""


def explain_error(name: str, error: OSError) -> BuiltinFailedError:
    """Convert an error of the file system. The message leaves out the folders above the project's."""
    match error.errno:
        case errno.ENOENT:
            return BuiltinFailedError(f"there is no {name}: list_files shows what exists")
        case errno.ELOOP | errno.EMLINK:
            return BuiltinFailedError(f"{name} is a link, which is not followed")
        case errno.ENOTDIR:
            return BuiltinFailedError(f"{name} is not a folder")
        case errno.EISDIR:
            return BuiltinFailedError(f"{name} is a folder")
        case errno.ENXIO:
            return BuiltinFailedError(f"{name} is not a plain file")
    return BuiltinFailedError(f"{name}: {os.strerror(error.errno or 0)}")


@contextmanager
def open_folder(root: Path, names: tuple[str, ...], *, make: bool = False) -> Iterator["OpenFolder"]:
    """Open the folder at the end of the names; `root` itself may be a link, which operators control.

    Raises:
        FolderMissingError: The folder does not exist, and `make` is False.
        BuiltinFailedError: Something on the path is not a folder.
    """
    with ExitStack() as opened:
        try:
            here = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        except FileNotFoundError:
            raise FolderMissingError("nothing has been written yet") from None
        except OSError as error:
            raise explain_error("the folder of all files", error) from None
        opened.callback(os.close, here)
        for name in names:
            here = _open_child(here, name, make=make)
            opened.callback(os.close, here)
        yield OpenFolder(here)


def _open_child(here: int, name: str, *, make: bool) -> int:
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=here)
        return os.open(name, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        raise FolderMissingError(f"there is no folder {name}: list_files shows what exists") from None
    except OSError as error:
        raise explain_error(name, error) from None


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """An open folder. Names are those of its entries, without `/`.

    All operations use the descriptor of the containing folder (`openat`, `renameat`), with `O_NOFOLLOW` at every step.
    """

    descriptor: int

    @contextmanager
    def open_file(self, name: str) -> Iterator[int]:
        """Open a plain file for reading. Raises BuiltinFailedError for anything else."""
        try:
            file = os.open(name, _FILE, dir_fd=self.descriptor)
        except OSError as error:
            raise explain_error(name, error) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise BuiltinFailedError(f"{name} is not a plain file")
            yield file
        finally:
            os.close(file)

    def get_size(self, name: str) -> int | None:
        """Return the size of a plain file; None if it does not exist. Raises BuiltinFailedError for anything else."""
        try:
            found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise BuiltinFailedError(f"{name} exists and is not a plain file")
        return found.st_size

    def get_mtime(self, name: str) -> float:
        """Return the modification time in Unix seconds; infinity if the file is gone."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mtime
        except FileNotFoundError:
            return float("inf")

    def list_entries(self) -> Iterator[FileEntry]:
        """Yield the entries in any order."""
        with os.scandir(self.descriptor) as found:
            for one in found:
                with suppress(FileNotFoundError):
                    yield _make_entry(one)

    def measure(self) -> tuple[int, int]:
        """Return the bytes of all files, and the number of files and folders, in this folder and below."""
        size, count = 0, 0
        for entry in self.list_entries():
            size, count = size + entry.size_bytes, count + 1
            if entry.kind is FileKind.FOLDER:
                inner = OpenFolder(_open_child(self.descriptor, entry.name, make=False))
                try:
                    below = inner.measure()
                finally:
                    os.close(inner.descriptor)
                size, count = size + below[0], count + below[1]
        return size, count

    def create_file(self, name: str, data: bytes) -> None:
        """Create a file and flush it to disk. Raises BuiltinFailedError."""
        try:
            file = os.open(name, _NEW, 0o600, dir_fd=self.descriptor)
            with os.fdopen(file, "wb") as writer:
                writer.write(data)
                writer.flush()
                os.fsync(writer.fileno())
        except OSError as error:
            raise explain_error("the file", error) from None

    def move_in(self, source: "OpenFolder", name: str, as_name: str) -> None:
        """Move a file into this folder, replacing a file of that name. Raises BuiltinFailedError."""
        try:
            os.replace(name, as_name, src_dir_fd=source.descriptor, dst_dir_fd=self.descriptor)
            os.fsync(self.descriptor)
        except OSError as error:
            raise explain_error(as_name, error) from None

    def delete_file(self, name: str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)


def _make_entry(one: os.DirEntry[str]) -> FileEntry:
    """Make an entry. A name that is not UTF-8 is shown with replacements and cannot be opened."""
    found = one.stat(follow_symlinks=False)
    shown = os.fsencode(one.name).decode(errors="replace")
    if shown != one.name:
        return FileEntry(shown, FileKind.OTHER, 0)
    if stat.S_ISDIR(found.st_mode):
        return FileEntry(one.name, FileKind.FOLDER, 0)
    if stat.S_ISREG(found.st_mode):
        return FileEntry(one.name, FileKind.FILE, found.st_size)
    return FileEntry(one.name, FileKind.OTHER, 0)


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
        def read() -> FileExcerpt:
            with self._open(project, parts[:-1]) as folder, folder.open_file(parts[-1]) as file:
                size = os.fstat(file).st_size
                return FileExcerpt(os.pread(file, limit_bytes, offset), offset, size)

        return await asyncio.to_thread(read)

    async def write_file(self, project: str, parts: Parts, data: bytes, *, replace: bool) -> bool:
        return await asyncio.to_thread(self._write, project, parts, data, replace)

    async def list_entries(self, project: str, parts: Parts) -> tuple[FileEntry, ...]:
        def scan() -> tuple[FileEntry, ...]:
            try:
                with self._open(project, parts) as folder:
                    return tuple(sorted(folder.list_entries(), key=lambda entry: entry.name))
            except FolderMissingError:
                if parts:
                    raise
                return ()

        return await asyncio.to_thread(scan)

    def _write(self, project: str, parts: Parts, data: bytes, replace: bool) -> bool:
        with self._writing:
            try:
                with self._open(project, parts[:-1]) as folder:
                    old = folder.get_size(parts[-1])
            except FolderMissingError:
                old = None
            if old is not None and not replace:
                raise BuiltinFailedError(f"{'/'.join(parts)} exists already: choose another name, or overwrite it")
            self._check_room(project, len(data) - (old or 0), new=0 if old is not None else len(parts))
            try:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise explain_error("the folder of all files", error) from None
            with self._open(project, parts[:-1], make=True) as folder, self._incoming(data) as (incoming, name):
                folder.move_in(incoming, name, parts[-1])
            return old is not None

    def _open(self, project: str, parts: Parts, *, make: bool = False) -> AbstractContextManager[OpenFolder]:
        return open_folder(self._root, (project, *parts), make=make)

    @contextmanager
    def _incoming(self, data: bytes) -> Iterator[tuple[OpenFolder, str]]:
        """Write the bytes to disk under a random name; the file is deleted at the end unless it was moved."""
        name = secrets.token_hex(16)
        with open_folder(self._root, (INCOMING,), make=True) as folder:
            oldest = time.time() - ABANDONED_S
            for entry in folder.list_entries():
                if folder.get_mtime(entry.name) < oldest:
                    folder.delete_file(entry.name)
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
