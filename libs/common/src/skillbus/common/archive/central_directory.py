"""The central directory of a zip, read strictly.

Python's `zipfile` tolerates what attackers use: it cuts names at NUL, skips data before the archive, guesses the
encoding of names and does not compare the sizes in the two headers of an entry. This reader refuses every archive that
two readers could understand differently.

Field names and offsets: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16.
"""

import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from skillbus.common.archive.errors import (
    CorruptError,
    EncodingError,
    EncryptedError,
    NotAZipError,
    OverlapError,
    SpecialFileError,
    SymlinkError,
    TooLargeError,
    UnsupportedError,
)
from skillbus.common.archive.limits import ArchiveLimits

STORED = 0
DEFLATED = 8

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_COMMENT = 0xFFFF
_IN_ZIP64 = 0xFFFFFFFF
_FLAG_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_FLAG_DESCRIPTOR = 0x0008
_FLAG_PATCH = 0x0020
_FLAG_UTF8 = 0x0800
_METHOD_AES = 99


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """An entry as the central directory declares it. Its path and sizes are not checked yet."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    mode: int
    offset: int

    @property
    def is_folder(self) -> bool:
        """True if the name ends with a slash."""
        return self.name.endswith("/")

    @property
    def executable(self) -> bool:
        """True if anyone may execute the file; False for archives written on systems without modes."""
        return not self.is_folder and bool(self.mode & 0o111)


@dataclass(frozen=True, slots=True)
class _EndRecord:
    """Position of the central directory and the number of entries it claims."""

    entries: int
    start: int
    size_bytes: int


def read_headers(data: bytes, limits: ArchiveLimits) -> tuple[EntryHeader, ...]:
    """Return every entry in the order of the central directory. The claimed count is checked before parsing.

    Raises:
        ArchiveError: The structure, or a feature of an entry, is refused.
    """
    end = _find_end_record(data)
    if end.entries > limits.entries:
        raise TooLargeError(f"the archive lists {end.entries} entries; at most {limits.entries} are allowed")
    headers = tuple(_parse_headers(data, end))
    for header in headers:
        if header.flags & _FLAG_ENCRYPTED or header.method == _METHOD_AES:
            raise EncryptedError("the entry is encrypted; pack it without a password", header.name)
        if header.flags & _FLAG_PATCH or header.method not in {STORED, DEFLATED}:
            raise UnsupportedError(f"compression method {header.method} is not stored or deflate", header.name)
        if header.method == STORED and header.packed_bytes != header.size_bytes:
            raise CorruptError("a stored entry declares two sizes", header.name)
        _check_kind(header)
    return headers


def locate_data(data: bytes, headers: tuple[EntryHeader, ...]) -> tuple[int, ...]:
    """Return the offset of each entry's data, after comparing every local header with the central one.

    Raises:
        CorruptError: Two headers disagree, or data is missing.
        OverlapError: Two entries share bytes.
    """
    stop = _find_end_record(data).start
    spans = [(header.offset, *_data_span(data, header, stop)) for header in headers]
    order = sorted(range(len(spans)), key=spans.__getitem__)
    for before, after in pairwise(order):
        if spans[after][0] < spans[before][2]:
            raise OverlapError("the entry shares bytes with another one", headers[after].name)
    return tuple(start for _, start, _ in spans)


def _find_end_record(data: bytes) -> _EndRecord:
    floor = max(0, len(data) - _END.size - _MAX_COMMENT)
    found: list[int] = []
    position = data.rfind(b"PK\x05\x06", floor)
    while position >= 0:
        if position + _END.size <= len(data):
            comment_bytes = int.from_bytes(data[position + 20 : position + 22], "little")
            if position + _END.size + comment_bytes == len(data):
                found.append(position)
        position = data.rfind(b"PK\x05\x06", floor, position) if position > floor else -1
    if not found:
        raise NotAZipError("the file is not a zip archive, or is cut off; send a .zip")
    if len(found) > 1:
        raise NotAZipError("the archive has two ends, one hidden in the comment of the other; pack it again")
    return _parse_end_record(data, found[0])


def _parse_end_record(data: bytes, position: int) -> _EndRecord:
    _, disk, first_disk, here, entries, size_bytes, start, _ = _END.unpack_from(data, position)
    if entries == 0xFFFF:
        raise TooLargeError("the archive lists more entries than a plain zip can")
    if 0xFFFF in {disk, first_disk, here} or _IN_ZIP64 in {size_bytes, start}:
        raise UnsupportedError("the archive is zip64; packages are small enough for a plain zip")
    if disk or first_disk or here != entries:
        raise UnsupportedError("the archive is split over several disks; send it as one")
    if start + size_bytes != position:
        raise NotAZipError("bytes stand before the archive or inside its directory; pack it again")
    if entries and not data.startswith(b"PK\x03\x04"):
        raise NotAZipError("the file does not begin with its first entry; pack it again")
    return _EndRecord(entries, start, size_bytes)


def _parse_headers(data: bytes, end: _EndRecord) -> Iterator[EntryHeader]:
    position, stop = end.start, end.start + end.size_bytes
    for _ in range(end.entries):
        if position + _CENTRAL.size > stop or not data.startswith(b"PK\x01\x02", position):
            raise NotAZipError(f"the directory does not hold the {end.entries} entries that it claims; pack it again")
        fields = _CENTRAL.unpack_from(data, position)
        _, _, _, flags, method, _, _, crc, packed, size, *lengths, disk, _, attributes, offset = fields
        name_bytes, extra_bytes, comment_bytes = lengths
        name_start = position + _CENTRAL.size
        position = name_start + name_bytes + extra_bytes + comment_bytes
        if position > stop:
            raise NotAZipError("the directory is cut off; pack it again")
        name = data[name_start : name_start + name_bytes]
        if _IN_ZIP64 in {packed, size, offset} or disk:
            raise UnsupportedError("the entry is zip64 or on another disk", _printable_name(name))
        yield EntryHeader(_decode_name(name, flags), name, flags, method, crc, packed, size, attributes >> 16, offset)
    if position != stop:
        raise NotAZipError("the directory holds more entries than the archive claims; pack it again")


def _decode_name(raw_name: bytes, flags: int) -> str:
    encoding = "utf-8" if flags & _FLAG_UTF8 else "ascii"
    try:
        return raw_name.decode(encoding)
    except UnicodeDecodeError as error:
        hint = "is not UTF-8" if encoding == "utf-8" else "is not ASCII and not marked as UTF-8"
        raise EncodingError(f"the name {hint}; pack it with UTF-8 names", _printable_name(raw_name)) from error


def _printable_name(raw_name: bytes) -> str:
    return raw_name.decode("utf-8", "backslashreplace")[:200]


def _check_kind(header: EntryHeader) -> None:
    # Checked for every system that may have written the archive: some readers honour Unix modes from all of them.
    kind = stat.S_IFMT(header.mode)
    if kind == stat.S_IFLNK:
        raise SymlinkError("symbolic links are not allowed; pack the file itself", header.name)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise SpecialFileError("only files and folders are allowed", header.name)
    if kind == stat.S_IFDIR and not header.is_folder:
        raise CorruptError("the mode says that this is a folder, the name that it is a file", header.name)
    if header.is_folder and header.size_bytes:
        raise CorruptError("a folder holds data", header.name)


def _data_span(data: bytes, header: EntryHeader, stop: int) -> tuple[int, int]:
    """Return the start and end of the entry's data, after comparing its local header with the central one."""
    if header.offset + _LOCAL.size > stop or not data.startswith(b"PK\x03\x04", header.offset):
        raise CorruptError("the entry has no header where the directory says", header.name)
    fields = _LOCAL.unpack_from(data, header.offset)
    _, _, flags, method, _, _, crc, packed_bytes, size_bytes, name_bytes, extra_bytes = fields
    name_start = header.offset + _LOCAL.size
    start = name_start + name_bytes + extra_bytes
    end = start + header.packed_bytes
    if end > stop:
        raise CorruptError("the entry's data is cut off", header.name)
    if data[name_start : name_start + name_bytes] != header.raw_name:
        raise CorruptError("the entry has another name in its own header than in the directory", header.name)
    if method != header.method or (flags ^ header.flags) & (_FLAG_ENCRYPTED | _FLAG_DESCRIPTOR):
        raise CorruptError("the entry's own header and the directory disagree on how it is packed", header.name)
    extra = data[start - extra_bytes : start]
    local = _local_sizes(extra, packed_bytes, size_bytes)
    declared = (header.packed_bytes, header.size_bytes)
    # With a data descriptor the sizes follow the data and the header has zeros, but some writers fill them in anyway.
    follows = bool(flags & _FLAG_DESCRIPTOR)
    if (local != declared and not (follows and local == (0, 0))) or (crc != header.crc and not (follows and crc == 0)):
        raise CorruptError("the entry's own header and the directory disagree on its size or checksum", header.name)
    return start, end


def _local_sizes(extra: bytes, packed_bytes: int, size_bytes: int) -> tuple[int, int]:
    """Return (packed, unpacked) sizes of a local header. Streaming writers always put them into a zip64 field."""
    if packed_bytes != _IN_ZIP64 or size_bytes != _IN_ZIP64:
        return packed_bytes, size_bytes
    position = 0
    while position + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, position)
        if tag == 1 and length >= 16 and position + 20 <= len(extra):
            size, packed = struct.unpack_from("<QQ", extra, position + 4)
            return int(packed), int(size)
        position += 4 + length
    return packed_bytes, size_bytes
