"""Making a zip whose bytes depend on names, contents and executable bits alone.

Entries are stored unless asked otherwise: what deflate writes differs between builds of zlib, and a digest must not.
"""

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from skillbus.common.archive_errors import EncodingError, SpecialFileError, SymlinkError, TooLargeError
from skillbus.common.archive_limits import ArchiveLimits
from skillbus.common.archive_names import NameSpace, is_junk, safe_path

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can hold."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file to put into an archive."""

    path: str
    content: bytes
    executable: bool = False


def pack_files(files: Collection[PackedFile], limits: ArchiveLimits | None = None, *, deflate: bool = False) -> bytes:
    """A zip of the files, in the order of their paths. `deflate` makes it small and its bytes those of this machine.

    Raises:
        ArchiveError: a name is refused, or a limit is passed.
    """
    limits = limits or ArchiveLimits()
    if len(files) > limits.entries:
        raise TooLargeError(f"there are {len(files)} files; at most {limits.entries} are allowed")
    names, buffer = NameSpace(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as target:
        for file in sorted(files, key=lambda file: file.path):
            names.add(safe_path(file.path, limits), is_folder=False)
            info = zipfile.ZipInfo(file.path, _EPOCH)
            info.create_system = 3  # Unix, so that the mode counts
            info.external_attr = (stat.S_IFREG | (0o755 if file.executable else 0o644)) << 16
            if deflate and not _packs_too_well(file.content, limits):
                info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, file.content)
    data = buffer.getvalue()
    if len(data) > limits.archive_bytes:
        raise TooLargeError(f"the package is larger than {limits.archive_bytes} bytes")
    return data


def _packs_too_well(content: bytes, limits: ArchiveLimits) -> bool:
    """Whether reading the deflated file would refuse it for its ratio."""
    return len(content) > limits.ratio_from_bytes and len(zlib.compress(content)) * limits.ratio < len(content) * 2


def pack_directory(root: Path, limits: ArchiveLimits | None = None, *, skip: Collection[str] = ()) -> bytes:
    """A zip of a folder's files; the same files give the same bytes. Empty folders and junk of macOS are left out.

    `skip` names files or folders directly under `root` to leave out.

    Raises:
        ArchiveError: a link or special file is there, a name is refused, or a limit is passed.
        OSError: a file cannot be read.
    """
    limits = limits or ArchiveLimits()
    files: list[PackedFile] = []
    total_bytes = 0
    for file in _walk(root, "", limits, skip):
        files.append(file)
        total_bytes += len(file.content)
        if len(files) > limits.entries or total_bytes > min(limits.total_bytes, limits.archive_bytes):
            raise TooLargeError(f"the folder holds more than {limits.entries} files or {limits.archive_bytes} bytes")
    return pack_files(files, limits)


def _walk(folder: Path, prefix: str, limits: ArchiveLimits, skip: Collection[str]) -> Iterator[PackedFile]:
    with os.scandir(folder) as found:
        children = sorted(found, key=lambda child: child.name)
    for child in children:
        if is_junk(child.name) or child.name in skip:
            continue
        if not child.name.isprintable() and not _is_utf8(child.name):
            raise EncodingError("the name is not UTF-8; rename the file", ascii(prefix + child.name))
        path = safe_path(prefix + child.name, limits)
        mode = child.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(Path(child.path), f"{path}/", limits, ())
        else:
            yield _read(Path(child.path), path, mode, limits)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(source: Path, path: str, mode: int, limits: ArchiveLimits) -> PackedFile:
    if stat.S_ISLNK(mode):
        raise SymlinkError("symbolic links are not allowed; put the file itself there", path)
    if not stat.S_ISREG(mode):
        raise SpecialFileError("only files and folders are allowed", path)
    # Not blocking and not following, in case the file was exchanged since it was looked at.
    with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SpecialFileError("only files and folders are allowed", path)
        content = file.read(limits.file_bytes + 1)
    if len(content) > limits.file_bytes:
        raise TooLargeError(f"the file is larger than {limits.file_bytes} bytes", path)
    return PackedFile(path, content, bool(mode & 0o111))
