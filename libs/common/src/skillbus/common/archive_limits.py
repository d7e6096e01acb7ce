"""How much an archive may hold."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Upper bounds, all inclusive; sizes in bytes, names in bytes of UTF-8."""

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
    """Unpacked to packed, for entries over `ratio_from_bytes`. Text packs to about 5:1, zeros to 1,000:1."""
    ratio_from_bytes: int = 64 * 1024
    ratio_exempt: frozenset[str] = field(default_factory=frozenset)
    """Base names, lower case, that a caller bounds itself with a clearer error; the other limits still hold."""
