"""Open folders, and ways through them that no symbolic link can bend.

Everything is done by the descriptor of the folder that holds it (`openat`, `renameat`), with `O_NOFOLLOW` at every
step.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.agent.domain.builtins.errors import ToolFailedError
from skillbus.agent.domain.builtins.files import Entry, EntryKind

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without waiting for the other end of a pipe."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderMissingError(ToolFailedError):
    """There is no folder of that path."""


def unusable(name: str, error: OSError) -> ToolFailedError:
    """What the disk said, without the folders that lie above the project's."""
    match error.errno:
        case errno.ENOENT:
            return ToolFailedError(f"there is no {name}: list_files tells what there is")
        case errno.ELOOP | errno.EMLINK:
            return ToolFailedError(f"{name} is a link, which is not followed")
        case errno.ENOTDIR:
            return ToolFailedError(f"{name} is no folder")
        case errno.EISDIR:
            return ToolFailedError(f"{name} is a folder")
        case errno.ENXIO:
            return ToolFailedError(f"{name} is no plain file")
    return ToolFailedError(f"{name}: {os.strerror(error.errno or 0)}")


@contextmanager
def entered(root: Path, names: tuple[str, ...], *, make: bool = False) -> Iterator["Folder"]:
    """The folder at the end of the names; `root` itself may be a link, as operators set it up.

    Raises:
        FolderMissingError: There is none, and none was to be made.
        ToolFailedError: Something on the way is no folder.
    """
    with ExitStack() as opened:
        try:
            here = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        except FileNotFoundError:
            raise FolderMissingError("nothing has been written yet") from None
        except OSError as error:
            raise unusable("the folder of all files", error) from None
        opened.callback(os.close, here)
        for name in names:
            here = _step(here, name, make=make)
            opened.callback(os.close, here)
        yield Folder(here)


def _step(here: int, name: str, *, make: bool) -> int:
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=here)
        return os.open(name, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        raise FolderMissingError(f"there is no folder {name}: list_files tells what there is") from None
    except OSError as error:
        raise unusable(name, error) from None


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder; every name is one of it, without `/`."""

    descriptor: int

    @contextmanager
    def file(self, name: str) -> Iterator[int]:
        """A plain file, open for reading. Raises ToolFailedError for anything else."""
        try:
            file = os.open(name, _FILE, dir_fd=self.descriptor)
        except OSError as error:
            raise unusable(name, error) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ToolFailedError(f"{name} is no plain file")
            yield file
        finally:
            os.close(file)

    def size_of(self, name: str) -> int | None:
        """Of a plain file; None when nothing has the name. Raises ToolFailedError for what is no file."""
        try:
            found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailedError(f"{name} is there, and no plain file")
        return found.st_size

    def changed_at(self, name: str) -> float:
        """Seconds since 1970; of what went meanwhile, never too old."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mtime
        except FileNotFoundError:
            return float("inf")

    def entries(self) -> Iterator[Entry]:
        """What lies here, in no order."""
        with os.scandir(self.descriptor) as found:
            for one in found:
                with suppress(FileNotFoundError):
                    yield _entry(one)

    def weight(self) -> tuple[int, int]:
        """Bytes of files, and files and folders, here and below."""
        size, count = 0, 0
        for entry in self.entries():
            size, count = size + entry.size_bytes, count + 1
            if entry.kind is EntryKind.FOLDER:
                inner = Folder(_step(self.descriptor, entry.name, make=False))
                try:
                    below = inner.weight()
                finally:
                    os.close(inner.descriptor)
                size, count = size + below[0], count + below[1]
        return size, count

    def put(self, name: str, data: bytes) -> None:
        """A new file, on the disk for certain. Raises ToolFailedError."""
        try:
            file = os.open(name, _NEW, 0o600, dir_fd=self.descriptor)
            with os.fdopen(file, "wb") as writer:
                writer.write(data)
                writer.flush()
                os.fsync(writer.fileno())
        except OSError as error:
            raise unusable("the file", error) from None

    def take(self, source: "Folder", name: str, as_name: str) -> None:
        """Move a file here, in the place of one that has the name. Raises ToolFailedError."""
        try:
            os.replace(name, as_name, src_dir_fd=source.descriptor, dst_dir_fd=self.descriptor)
            os.fsync(self.descriptor)
        except OSError as error:
            raise unusable(as_name, error) from None

    def drop(self, name: str) -> None:
        """Delete a file; one that is gone already is no error."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)


def _entry(one: os.DirEntry[str]) -> Entry:
    """A name that is no UTF-8 cannot be told as it is, nor asked for."""
    found = one.stat(follow_symlinks=False)
    shown = os.fsencode(one.name).decode(errors="replace")
    if shown != one.name:
        return Entry(shown, EntryKind.OTHER, 0)
    if stat.S_ISDIR(found.st_mode):
        return Entry(one.name, EntryKind.FOLDER, 0)
    if stat.S_ISREG(found.st_mode):
        return Entry(one.name, EntryKind.FILE, found.st_size)
    return Entry(one.name, EntryKind.OTHER, 0)
