"""Files that learning reads: plain, compressed with gzip, or members of a ZIP archive.

Nothing is unpacked to the disk. A file is opened as often as it is read, and each reader stops at the limit of bytes,
so a small archive cannot become an endless job.
"""

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_EMPTY_ZIP: Final = b"PK\x05\x06"
_ENCRYPTED: Final = 0x1
MAX_FILE_BYTES: Final = 8 * 1024**3
"""Most bytes of one file, unpacked."""
MAX_MEMBERS: Final = 10_000
"""Most files in an archive."""
READ_ERRORS: Final = (
    *(OSError, EOFError, UnicodeError, NotImplementedError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, struct.error),
)
"""Errors of damaged or unsupported files, while they are read. `UnreadableSourceError` is an OSError."""


class UnreadableSourceError(OSError):
    """A file cannot be read. The message says why."""


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SourceFile:
    """File that can be opened for reading."""

    name: str
    """Name in the job; a member of an archive follows its archive after `!`."""
    open_bytes: Callable[[ExitStack], _Readable]
    """Opens the unpacked bytes, for as long as the stack is open."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the unpacked bytes. Reading raises one of `READ_ERRORS`."""
        with ExitStack() as stack:
            yield io.BufferedReader(_LimitedStream(self.open_bytes(stack)))

    def read_start(self, count: int) -> bytes:
        """Return the first bytes. Raises one of `READ_ERRORS`."""
        with self.open() as stream:
            return stream.read(count)


class _LimitedStream(io.RawIOBase):
    """Stream that fails after `MAX_FILE_BYTES`."""

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self._left = MAX_FILE_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # its type names all buffers
        content = self._stream.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise UnreadableSourceError(f"it holds more than {MAX_FILE_BYTES // 1024**3} GiB")
        buffer[: len(content)] = content
        return len(content)


def list_source_files(name: str, path: Path) -> Iterator[SourceFile]:
    """Yield the file itself, or the members of an archive, each to be read before the next one is taken.

    Raises one of `READ_ERRORS`.
    """

    def open_file(stack: ExitStack) -> _Readable:
        return stack.enter_context(path.open("rb"))

    def open_unpacked(stack: ExitStack) -> _Readable:
        return stack.enter_context(gzip.open(path))

    with path.open("rb") as stream:
        start = stream.read(4)
    if start in {_ZIP, _EMPTY_ZIP}:
        yield from _list_members(name, path)
    else:
        yield SourceFile(name, open_unpacked if start.startswith(_GZIP) else open_file)


def _list_members(name: str, path: Path) -> Iterator[SourceFile]:
    # The archive is opened once: each opening reads the list of all its members.
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) > MAX_MEMBERS:
            raise UnreadableSourceError(f"it holds {len(members)} files; at most {MAX_MEMBERS} are read")
        for member in members:
            yield SourceFile(f"{name}!{_clean_name(member.filename)}", partial(_open_member, archive, member))


def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, stack: ExitStack) -> _Readable:
    if member.flag_bits & _ENCRYPTED:
        raise UnreadableSourceError("it is encrypted")
    stream = stack.enter_context(archive.open(member))
    if not member.filename.endswith(".gz"):
        return stream
    return stack.enter_context(gzip.open(stream))


def _clean_name(name: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in name)[:200]
