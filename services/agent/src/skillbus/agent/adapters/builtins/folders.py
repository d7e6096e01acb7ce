"""Open folders: file operations that no symbolic link can redirect.

All operations use the descriptor of the containing folder (`openat`, `renameat`), with `O_NOFOLLOW` at every step.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.agent.domain.builtins.files import FileEntry, FileKind
from skillbus.agent.domain.errors import BuiltinFailedError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Does not wait for the other end of a pipe."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
    """An open folder. Names are those of its entries, without `/`."""

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
