"""What passes between the embedder and the child process that computes e5: length-prefixed frames over two pipes.

Both sides are of one installation, so that neither checks a version. Numbers are little-endian uint32.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

LENGTH: Final = struct.Struct("<I")
DIM: Final = 384
_REQUEST: Final = struct.Struct("<II")  # whether they are queries; how many


class Answer(IntEnum):
    """First byte of each frame that the child writes."""

    ROWS = 0
    """float32 rows of `DIM`, one a text, in order. The first such frame, of one row, says that the model is loaded."""
    BROKEN = 1
    """The model cannot be loaded; the rest of the frame is the reason."""
    FAILED = 2
    """These texts cannot be embedded; the rest of the frame is the reason."""


def framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


def request(texts: Sequence[str], *, queries: bool) -> bytes:
    """The payload that asks for the vectors of `texts`."""
    encoded = [text.encode() for text in texts]
    return _REQUEST.pack(queries, len(encoded)) + b"".join(framed(text) for text in encoded)


def requested(payload: bytes) -> tuple[list[str], bool]:
    """The texts of a request, and whether they are queries."""
    queries, count = _REQUEST.unpack_from(payload)
    texts, at = [], _REQUEST.size
    for _ in range(count):
        (length,) = LENGTH.unpack_from(payload, at)
        at += LENGTH.size
        texts.append(payload[at : at + length].decode())
        at += length
    return texts, bool(queries)
