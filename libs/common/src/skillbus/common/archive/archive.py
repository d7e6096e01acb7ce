"""An untrusted zip archive: checked when it is opened, and again while its files are inflated.

Limits and rules: the package checks in the design of the sandbox, tested there on 38 hostile archives.
"""

import hashlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from skillbus.common.archive.central_directory import DEFLATED, EntryHeader, locate_data, read_headers
from skillbus.common.archive.errors import CorruptError, TooLargeError
from skillbus.common.archive.limits import ArchiveLimits
from skillbus.common.archive.names import NameSpace, is_junk, normalize_path

_CHUNK_BYTES = 64 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileTree:
    """A folder that is being filled, relative to open descriptors and without following links.

    Paths are relative, with forward slashes, and already checked.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._created: set[str] = set()
        self._root = -1

    def __enter__(self) -> Self:
        self._root = os.open(self._directory, _FOLDER_FLAGS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def add_folder(self, path: str) -> None:
        """Create a folder and its parents with mode 0755."""
        with ExitStack() as stack:
            self._open_folder(path.split("/") if path else [], stack)

    def add_file(self, path: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Write a new file with mode 0644 or 0755, independent of the umask. Parents are created."""
        *parents, name = path.split("/")
        with ExitStack() as stack:
            folder = self._open_folder(parents, stack)
            with os.fdopen(os.open(name, _FILE_FLAGS, 0o600, dir_fd=folder), "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def _open_folder(self, segments: list[str], stack: ExitStack) -> int:
        """Return a descriptor of the folder, created on first use. `stack` closes it."""
        folder, path = self._root, ""
        for segment in segments:
            path = f"{path}/{segment}"
            is_new = path not in self._created
            if is_new:
                os.mkdir(segment, 0o755, dir_fd=folder)
            folder = os.open(segment, _FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, folder)
            if is_new:
                os.fchmod(folder, 0o755)
                self._created.add(path)
        return folder


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file or folder of an archive. `path` is relative, with forward slashes and no trailing slash."""

    path: str
    size_bytes: int
    is_folder: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip with safe structure, names and declared sizes. Files that macOS adds are left out."""

    data: bytes
    entries: tuple[ArchiveEntry, ...]
    _sources: dict[str, tuple[EntryHeader, int]]
    """Header of each file and the offset of its data, by path."""

    @property
    def digest(self) -> str:
        """SHA-256 of the archive in hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def files(self) -> tuple[ArchiveEntry, ...]:
        """Entries that are files."""
        return tuple(entry for entry in self.entries if not entry.is_folder)

    def read_file(self, path: str) -> bytes:
        """Return the content of a file, at most `ArchiveLimits.file_bytes`.

        Raises:
            KeyError: The archive has no such file.
            CorruptError: The data is damaged.
            TooLargeError: The file holds more data than declared.
        """
        return b"".join(_inflate(self.data, *self._sources[path]))

    def extract_to(self, directory: Path, *, strip_prefix: str = "", skip: Collection[str] = ()) -> tuple[str, ...]:
        """Write the files below `strip_prefix` into an existing folder and return their paths.

        Files get mode 0644, or 0755 if they were executable; folders get 0755. Nothing is overwritten and no link is
        followed. After an error the caller removes the files written so far: extract into a staging folder.

        Args:
            directory: The folder to write into.
            strip_prefix: "" or a folder of the archive with its trailing slash.
            skip: Paths that are not written, relative to `directory`.

        Raises:
            ArchiveError: As `read_file`.
            OSError: The disk is full, or `directory` is not an empty folder of this user.
        """
        written: list[str] = []
        with FileTree(directory) as tree:
            for entry in self.entries:
                target = entry.path.removeprefix(strip_prefix)
                if not entry.path.startswith(strip_prefix) or target in skip:
                    continue
                if entry.is_folder:
                    tree.add_folder(target)
                else:
                    chunks = _inflate(self.data, *self._sources[entry.path])
                    tree.add_file(target, chunks, executable=entry.executable)
                    written.append(target)
        return tuple(written)


def open_archive(source: bytes | BinaryIO, limits: ArchiveLimits | None = None) -> Archive:
    """Check an archive and list its entries without inflating anything.

    Raises:
        ArchiveError: The archive is refused; `errors` lists the cases.
    """
    limits = limits or ArchiveLimits()
    data = source if isinstance(source, bytes) else source.read(limits.archive_bytes + 1)
    if len(data) > limits.archive_bytes:
        raise TooLargeError(f"the archive is larger than {limits.archive_bytes} bytes")
    headers = read_headers(data, limits)
    paths = _check_names_and_sizes(headers, limits)
    entries, sources = list[ArchiveEntry](), dict[str, tuple[EntryHeader, int]]()
    for path, header, start in zip(paths, headers, locate_data(data, headers), strict=True):
        if not path or is_junk(path):
            continue
        entries.append(ArchiveEntry(path, header.size_bytes, header.is_folder, header.executable))
        if not header.is_folder:
            sources[path] = header, start
    return Archive(data, tuple(entries), sources)


def _check_names_and_sizes(headers: tuple[EntryHeader, ...], limits: ArchiveLimits) -> list[str]:
    """Return the path of each entry, "" for the root itself."""
    names, paths, total_bytes = NameSpace(), list[str](), 0
    for header in headers:
        path = normalize_path(header.name, limits)
        if path:
            names.add_path(path, is_folder=header.is_folder)
        if header.size_bytes > limits.file_bytes:
            raise TooLargeError(f"the file unpacks to more than {limits.file_bytes} bytes", header.name)
        exempt = header.name.rsplit("/", 1)[-1].lower() in limits.ratio_exempt
        ratio_exceeded = header.size_bytes > limits.ratio * max(header.packed_bytes, 1)
        if header.size_bytes > limits.ratio_from_bytes and ratio_exceeded and not exempt:
            raise TooLargeError(f"the file unpacks to more than {limits.ratio} times its packed size", header.name)
        total_bytes += header.size_bytes
        paths.append(path)
    if total_bytes > limits.total_bytes:
        raise TooLargeError(f"the archive unpacks to more than {limits.total_bytes} bytes")
    return paths


def _inflate(data: bytes, header: EntryHeader, start: int) -> Iterator[bytes]:
    """Yield the content in pieces of at most 64 KiB, never more bytes than declared."""
    packed = memoryview(data)[start : start + header.packed_bytes]
    if header.method == DEFLATED:
        pieces = _inflate_deflated(packed, header.name)
    else:
        pieces = (bytes(packed[at : at + _CHUNK_BYTES]) for at in range(0, len(packed), _CHUNK_BYTES))
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


def _inflate_deflated(packed: memoryview, name: str) -> Iterator[bytes]:
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
