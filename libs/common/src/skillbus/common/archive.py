"""Zip archives from strangers: everything is checked before anything is written.

`open_archive` checks the structure, the names and the declared sizes; `Archive.read` and `Archive.extract_to` hold the
data to its declared size and checksum while they inflate it. The tree of errors is in `archive_errors`.

Limits and rules: the checks of a package in the design of the sandbox, tried there on 38 hostile archives.
"""

import hashlib
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillbus.common.archive_directory import DEFLATED, Header, data_starts, read_headers
from skillbus.common.archive_errors import (
    ArchiveCode,
    ArchiveError,
    CorruptError,
    DuplicateEntryError,
    EncodingError,
    EncryptedError,
    NotAZipError,
    OverlapError,
    SpecialFileError,
    SymlinkError,
    TooLargeError,
    UnsafePathError,
    UnsupportedError,
)
from skillbus.common.archive_extract import Tree
from skillbus.common.archive_limits import ArchiveLimits
from skillbus.common.archive_names import NameSpace, is_junk, safe_path
from skillbus.common.archive_pack import PackedFile, pack_directory, pack_files

__all__ = [
    "Archive",
    "ArchiveCode",
    "ArchiveError",
    "ArchiveLimits",
    "CorruptError",
    "DuplicateEntryError",
    "EncodingError",
    "EncryptedError",
    "Entry",
    "NotAZipError",
    "OverlapError",
    "PackedFile",
    "SpecialFileError",
    "SymlinkError",
    "TooLargeError",
    "UnsafePathError",
    "UnsupportedError",
    "open_archive",
    "pack_directory",
    "pack_files",
]

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of an archive. `path` is relative, with forward slashes and no closing one."""

    path: str
    size_bytes: int
    is_folder: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a file's data is."""

    header: Header
    start: int


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip whose structure, names and declared sizes were found safe. Junk of macOS is left out."""

    data: bytes
    entries: tuple[Entry, ...]
    _sources: dict[str, _Source]

    @property
    def digest(self) -> str:
        """SHA-256 of the archive's bytes, hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def files(self) -> tuple[Entry, ...]:
        """The entries that are files."""
        return tuple(entry for entry in self.entries if not entry.is_folder)

    def read(self, path: str) -> bytes:
        """A file's content, at most `ArchiveLimits.file_bytes`.

        Raises:
            KeyError: there is no such file.
            CorruptError: the data is damaged.
            TooLargeError: the data is more than declared.
        """
        return b"".join(_inflate(self.data, self._sources[path]))

    def extract_to(self, directory: Path, *, strip_prefix: str = "", skip: Collection[str] = ()) -> tuple[str, ...]:
        """Write the files under `strip_prefix` ("" or a folder with its closing slash) into an existing folder.

        Files get mode 0644, or 0755 if they were executable; folders 0755. Nothing is overwritten, no link is followed.
        `skip` names files as they would be written. Returns the paths written. What an error leaves behind is for the
        caller to remove: extract into a staging folder.

        Raises:
            ArchiveError: as `read`.
            OSError: the disk is full, or `directory` is not an empty folder of ours.
        """
        written: list[str] = []
        with Tree(directory) as tree:
            for entry in self.entries:
                target = entry.path.removeprefix(strip_prefix)
                if not entry.path.startswith(strip_prefix) or target in skip:
                    continue
                if entry.is_folder:
                    tree.add_folder(target)
                else:
                    chunks = _inflate(self.data, self._sources[entry.path])
                    tree.add_file(target, chunks, executable=entry.executable)
                    written.append(target)
        return tuple(written)


def open_archive(source: bytes | BinaryIO, limits: ArchiveLimits | None = None) -> Archive:
    """Check an archive and list it, without inflating anything.

    Raises:
        ArchiveError: it is refused; see `archive_errors` for the cases.
    """
    limits = limits or ArchiveLimits()
    data = source if isinstance(source, bytes) else source.read(limits.archive_bytes + 1)
    if len(data) > limits.archive_bytes:
        raise TooLargeError(f"the archive is larger than {limits.archive_bytes} bytes")
    headers = read_headers(data, limits)
    paths = _checked_paths(headers, limits)
    entries, sources = list[Entry](), dict[str, _Source]()
    for path, header, start in zip(paths, headers, data_starts(data, headers), strict=True):
        if not path or is_junk(path):
            continue
        entries.append(Entry(path, header.size_bytes, header.is_folder, header.executable))
        if not header.is_folder:
            sources[path] = _Source(header, start)
    return Archive(data, tuple(entries), sources)


def _checked_paths(headers: tuple[Header, ...], limits: ArchiveLimits) -> list[str]:
    """The path of each entry ("" for the root itself), names and sizes being within what is allowed."""
    names, paths, total_bytes = NameSpace(), list[str](), 0
    for header in headers:
        path = safe_path(header.name, limits)
        if path:
            names.add(path, is_folder=header.is_folder)
        _check_size(header, limits)
        total_bytes += header.size_bytes
        paths.append(path)
    if total_bytes > limits.total_bytes:
        raise TooLargeError(f"the archive unpacks to more than {limits.total_bytes} bytes")
    return paths


def _check_size(header: Header, limits: ArchiveLimits) -> None:
    if header.size_bytes > limits.file_bytes:
        raise TooLargeError(f"the file unpacks to more than {limits.file_bytes} bytes", header.name)
    exempt = header.name.rsplit("/", 1)[-1].lower() in limits.ratio_exempt
    ratio_exceeded = header.size_bytes > limits.ratio * max(header.packed_bytes, 1)
    if header.size_bytes > limits.ratio_from_bytes and ratio_exceeded and not exempt:
        raise TooLargeError(f"the file unpacks to more than {limits.ratio} times its packed size", header.name)


def _inflate(data: bytes, source: _Source) -> Iterator[bytes]:
    """The content in pieces of at most 64 KiB, never more than declared."""
    header = source.header
    packed = memoryview(data)[source.start : source.start + header.packed_bytes]
    pieces = _deflated(packed, header.name) if header.method == DEFLATED else _stored(packed)
    size_bytes = crc = 0
    for piece in pieces:
        size_bytes += len(piece)
        if size_bytes > header.size_bytes:
            raise TooLargeError(f"the file unpacks to more than the {header.size_bytes} bytes declared", header.name)
        crc = zlib.crc32(piece, crc)
        yield piece
    if size_bytes != header.size_bytes:
        raise CorruptError(f"the file holds {size_bytes} bytes and declares {header.size_bytes}", header.name)
    if crc != header.crc:
        raise CorruptError("the file's checksum is wrong; pack it again", header.name)


def _stored(packed: memoryview) -> Iterator[bytes]:
    for start in range(0, len(packed), _CHUNK_BYTES):
        yield bytes(packed[start : start + _CHUNK_BYTES])


def _deflated(packed: memoryview, name: str) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    pending: bytes | memoryview = packed
    try:
        while not inflater.eof:
            piece = inflater.decompress(pending, _CHUNK_BYTES)
            if piece:
                yield piece
            elif not inflater.unconsumed_tail and not inflater.eof:
                break
            pending = inflater.unconsumed_tail
    except zlib.error as error:
        raise CorruptError("the file's data does not inflate; pack it again", name) from error
    if not inflater.eof or inflater.unused_data:
        raise CorruptError("the file's packed data does not end where it is declared to", name)
