"""Names of files that cross the border of a sandbox, in either direction."""

from typing import Final

NAME_BYTES_MAX: Final = 240
SEGMENT_BYTES_MAX: Final = 128
DEPTH_MAX: Final = 8
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_BIDI: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_safe_name(name: str) -> bool:
    """Whether `name` is a relative path that is safe to create on any file system.

    Segments joined by `/`, at most 8 of them; no empty, `.` or `..` segment, no control or bidirectional characters,
    none of the characters that Windows reserves, nothing that UTF-8 cannot write.
    """
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    segments = name.split("/")
    return len(encoded) <= NAME_BYTES_MAX and len(segments) <= DEPTH_MAX and all(map(_is_safe_segment, segments))


def _is_safe_segment(segment: str) -> bool:
    if segment in {"", ".", ".."} or len(segment.encode()) > SEGMENT_BYTES_MAX or segment.endswith((" ", ".")):
        return False
    return all(char.isprintable() and char not in _FORBIDDEN and char not in _BIDI for char in segment)
