"""Zip archives: read untrusted ones, extract them, and pack folders into reproducible ones.

`open_archive` checks the structure, the names and the declared sizes before anything is inflated. `Archive.read_file`
and `Archive.extract_to` enforce the declared size and checksum while they inflate. `errors` lists the error classes.
"""

from skillbus.common.archive.archive import Archive, ArchiveEntry, open_archive
from skillbus.common.archive.errors import ArchiveCode, ArchiveError
from skillbus.common.archive.limits import ArchiveLimits
from skillbus.common.archive.packing import PackedFile, pack_directory, pack_files

__all__ = [
    "Archive",
    "ArchiveCode",
    "ArchiveEntry",
    "ArchiveError",
    "ArchiveLimits",
    "PackedFile",
    "open_archive",
    "pack_directory",
    "pack_files",
]
