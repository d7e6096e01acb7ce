"""Errors of archives: one class for each reason to refuse one.

```text
ArchiveError                base; carries `code`, `message` and `entry`
├── NotAZipError            not_a_zip        not a zip, truncated, or its directory does not parse
├── CorruptError            corrupt          headers disagree, a checksum is wrong, data does not inflate
├── OverlapError            overlap          two entries share bytes of the archive, as compression bombs do
├── UnsafePathError         unsafe_path      absolute, `..`, backslash, drive, control character, reserved, too long
├── SymlinkError            symlink          a symbolic link
├── SpecialFileError        special_file     a device, FIFO or socket
├── TooLargeError           too_large        over a limit of `ArchiveLimits`, or more data than declared
├── DuplicateEntryError     duplicate_entry  names that are equal on some file system, or a file used as a folder
├── EncodingError           encoding         a name that is not UTF-8, or not declared as UTF-8
├── EncryptedError          encrypted        needs a password
└── UnsupportedError        unsupported      another compression method, zip64, several disks, patch data
```
"""

from enum import StrEnum
from typing import ClassVar


class ArchiveCode(StrEnum):
    """Machine-readable reason. The member name is upper case (`UNSAFE_PATH`), its value lower case."""

    NOT_A_ZIP = "not_a_zip"
    CORRUPT = "corrupt"
    OVERLAP = "overlap"
    UNSAFE_PATH = "unsafe_path"
    SYMLINK = "symlink"
    SPECIAL_FILE = "special_file"
    TOO_LARGE = "too_large"
    DUPLICATE_ENTRY = "duplicate_entry"
    ENCODING = "encoding"
    ENCRYPTED = "encrypted"
    UNSUPPORTED = "unsupported"


class ArchiveError(Exception):
    """An archive, or a folder that should be packed, is refused. `entry` names the entry, "" the whole archive."""

    code: ClassVar[ArchiveCode]

    def __init__(self, message: str, entry: str = "") -> None:
        super().__init__(f"{message} (entry {entry!r})" if entry else message)
        self.message = message
        self.entry = entry


class NotAZipError(ArchiveError):
    code = ArchiveCode.NOT_A_ZIP


class CorruptError(ArchiveError):
    code = ArchiveCode.CORRUPT


class OverlapError(ArchiveError):
    code = ArchiveCode.OVERLAP


class UnsafePathError(ArchiveError):
    code = ArchiveCode.UNSAFE_PATH


class SymlinkError(ArchiveError):
    code = ArchiveCode.SYMLINK


class SpecialFileError(ArchiveError):
    code = ArchiveCode.SPECIAL_FILE


class TooLargeError(ArchiveError):
    code = ArchiveCode.TOO_LARGE


class DuplicateEntryError(ArchiveError):
    code = ArchiveCode.DUPLICATE_ENTRY


class EncodingError(ArchiveError):
    code = ArchiveCode.ENCODING


class EncryptedError(ArchiveError):
    code = ArchiveCode.ENCRYPTED


class UnsupportedError(ArchiveError):
    code = ArchiveCode.UNSUPPORTED
