"""Limits of an archive."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Inclusive upper bounds; sizes in bytes, names in bytes of UTF-8."""

    archive_bytes: int = 20 * 1024 * 1024
    total_bytes: int = 50 * 1024 * 1024
    file_bytes: int = 10 * 1024 * 1024
    entries: int = 2000
    """Files and folders together."""
    depth: int = 12
    """Segments of a path."""
    path_bytes: int = 240
    segment_bytes: int = 128
    ratio: int = 100
    """Unpacked to packed size, for entries over `ratio_from_bytes`. Text packs to about 5:1, zeros to 1,000:1."""
    ratio_from_bytes: int = 64 * 1024
    ratio_exempt: frozenset[str] = field(default_factory=frozenset)
    """Lower-case base names of files that the caller checks for their ratio. Other limits still apply."""
