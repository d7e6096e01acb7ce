"""Pack files into a reproducible zip: its bytes depend only on names, contents and executable bits.

Entries are stored by default: the output of deflate differs between builds of zlib, and the digest of a package must
not.
"""

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from skillbus.common.archive.errors import EncodingError, SpecialFileError, SymlinkError, TooLargeError
from skillbus.common.archive.limits import ArchiveLimits
from skillbus.common.archive.names import NameSpace, is_junk, normalize_path

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest time that a zip can represent."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file to put into an archive."""

    path: str
    content: bytes
    executable: bool = False


def pack_files(files: Collection[PackedFile], limits: ArchiveLimits | None = None, *, deflate: bool = False) -> bytes:
    """Return a zip of the files, ordered by path. With `deflate` it is smaller, but its bytes depend on the machine.

    Raises:
        ArchiveError: A name is refused, or a limit is exceeded.
    """
    limits = limits or ArchiveLimits()
    if len(files) > limits.entries:
        raise TooLargeError(f"there are {len(files)} files; at most {limits.entries} are allowed")
    names, buffer = NameSpace(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as target:
        for file in sorted(files, key=lambda file: file.path):
            names.add_path(normalize_path(file.path, limits), is_folder=False)
            info = zipfile.ZipInfo(file.path, _EPOCH)
            info.create_system = 3  # Unix, so that readers use the mode
            info.external_attr = (stat.S_IFREG | (0o755 if file.executable else 0o644)) << 16
            if deflate and not _packs_too_well(file.content, limits):
                info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, file.content)
    data = buffer.getvalue()
    if len(data) > limits.archive_bytes:
        raise TooLargeError(f"the package is larger than {limits.archive_bytes} bytes")
    return data


def _packs_too_well(content: bytes, limits: ArchiveLimits) -> bool:
    """Return True if a reader would refuse the deflated file for its ratio."""
    return len(content) > limits.ratio_from_bytes and len(zlib.compress(content)) * limits.ratio < len(content) * 2


def pack_directory(root: Path, limits: ArchiveLimits | None = None, *, skip: Collection[str] = ()) -> bytes:
    """Return a zip of a folder's files; equal files give equal bytes. Empty folders and macOS files are left out.

    `skip` names files or folders directly under `root` that are left out.

    Raises:
        ArchiveError: The folder holds a link or special file, a name is refused, or a limit is exceeded.
        OSError: A file cannot be read.
    """
    limits = limits or ArchiveLimits()
    files: list[PackedFile] = []
    total_bytes = 0
    for file in _read_files(root, "", limits, skip):
        files.append(file)
        total_bytes += len(file.content)
        if len(files) > limits.entries or total_bytes > min(limits.total_bytes, limits.archive_bytes):
            raise TooLargeError(f"the folder holds more than {limits.entries} files or {limits.archive_bytes} bytes")
    return pack_files(files, limits)


def _read_files(folder: Path, prefix: str, limits: ArchiveLimits, skip: Collection[str]) -> Iterator[PackedFile]:
    with os.scandir(folder) as found:
        children = sorted(found, key=lambda child: child.name)
    for child in children:
        if is_junk(child.name) or child.name in skip:
            continue
        try:
            child.name.encode()
        except UnicodeEncodeError:
            raise EncodingError("the name is not UTF-8; rename the file", ascii(prefix + child.name)) from None
        path = normalize_path(prefix + child.name, limits)
        mode = child.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _read_files(Path(child.path), f"{path}/", limits, ())
        else:
            yield _read_file(Path(child.path), path, mode, limits)


def _read_file(source: Path, path: str, mode: int, limits: ArchiveLimits) -> PackedFile:
    if stat.S_ISLNK(mode):
        raise SymlinkError("symbolic links are not allowed; put the file itself there", path)
    if not stat.S_ISREG(mode):
        raise SpecialFileError("only files and folders are allowed", path)
    # Neither blocks nor follows links, in case the file was replaced since `stat`.
    with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SpecialFileError("only files and folders are allowed", path)
        content = file.read(limits.file_bytes + 1)
    if len(content) > limits.file_bytes:
        raise TooLargeError(f"the file is larger than {limits.file_bytes} bytes", path)
    return PackedFile(path, content, bool(mode & 0o111))
