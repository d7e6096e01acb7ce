"""Wire format between the embedder and its e5 child process: length-prefixed frames over two pipes.

Both sides belong to one installation, so neither checks a version. Numbers are little-endian uint32.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

LENGTH: Final = struct.Struct("<I")
DIM: Final = 384
_REQUEST: Final = struct.Struct("<II")  # 1 for queries; number of texts


class FrameKind(IntEnum):
    """First byte of each frame from the child."""

    ROWS = 0
    """float32 rows of `DIM`, one per text, in order. The first such frame, of one row, reports that the model is
    loaded."""
    BROKEN = 1
    """The model cannot be loaded; the rest of the frame is the reason."""
    FAILED = 2
    """These texts cannot be embedded; the rest of the frame is the reason."""


def pack_frame(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


def pack_request(texts: Sequence[str], *, queries: bool) -> bytes:
    """Pack the payload that requests the vectors of `texts`."""
    encoded = [text.encode() for text in texts]
    return _REQUEST.pack(queries, len(encoded)) + b"".join(pack_frame(text) for text in encoded)


def unpack_request(payload: bytes) -> tuple[list[str], bool]:
    """Return the texts of a request, and True if they are queries."""
    queries, count = _REQUEST.unpack_from(payload)
    texts, at = [], _REQUEST.size
    for _ in range(count):
        (length,) = LENGTH.unpack_from(payload, at)
        at += LENGTH.size
        texts.append(payload[at : at + length].decode())
        at += length
    return texts, bool(queries)
