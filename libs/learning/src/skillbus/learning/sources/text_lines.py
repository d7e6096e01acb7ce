"""Lines of a text file: decoded, bounded, in flat memory."""

import codecs
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import BinaryIO, Final

LINE_CHARACTERS: Final = 65_536
"""Longest line. The rest of a longer line is left out."""
_CHUNK_BYTES: Final = 1 << 18
_UTF_16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b\b")
_BINARY_SHARE: Final = 0.02


def is_binary(start: bytes) -> bool:
    """Return True if the first bytes of a file are not text: NUL bytes, or more than 2 % control characters."""
    if start[:2] in _UTF_16:
        return False
    controls = sum(byte in _CONTROLS for byte in start)
    return b"\0" in start or controls > _BINARY_SHARE * len(start)


def read_lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a text without their ends.

    Each line is UTF-8, or else GB 18030, or else Latin-1, because one file can mix them. A byte order mark can say
    UTF-16.
    """
    for block in _read_blocks(_read_chunks(stream)):
        for line in _decode_lines(block):
            yield line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS]


def decode_text(content: bytes) -> str:
    """Return the text of a whole file. Lines are decoded as `read_lines` does."""
    return "\n".join(_decode_lines(b"".join(_read_chunks(BytesIO(content)))))


def read_text(stream: BinaryIO) -> Iterator[str]:
    """Yield the text of a document in chunks, whatever the length of its lines: UTF-8, or UTF-16 by its mark."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in _read_chunks(stream):
        yield decoder.decode(chunk)


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content in chunks without a byte order mark, UTF-16 as UTF-8."""
    chunk = stream.read(_CHUNK_BYTES)
    encoding = _UTF_16.get(chunk[:2])
    if encoding is None:
        chunk = chunk.removeprefix(codecs.BOM_UTF8)
        while chunk:
            yield chunk
            chunk = stream.read(_CHUNK_BYTES)
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    chunk = chunk[2:]
    while chunk:
        yield decoder.decode(chunk).encode("utf-8", "replace")
        chunk = stream.read(_CHUNK_BYTES)


def _read_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines. The end of a line that exceeds the limit is left out."""
    rest, skipping = b"", False
    for chunk in chunks:
        if skipping:
            _, newline, after = chunk.partition(b"\n")
            if not newline:
                continue
            skipping = False
        else:
            after = chunk
        lines, newline, unfinished = after.rpartition(b"\n")
        if newline:
            yield rest + lines
            rest = unfinished
        else:
            rest += unfinished
        if len(rest) > 4 * LINE_CHARACTERS:
            yield rest
            rest, skipping = b"", True
    if rest:
        yield rest


def _decode_lines(block: bytes) -> list[str]:
    block = block.replace(b"\r\n", b"\n")
    try:
        return block.decode().split("\n")
    except UnicodeDecodeError:
        return [_decode_line(line) for line in block.split(b"\n")]


def _decode_line(line: bytes) -> str:
    for encoding in ("utf-8", "gb18030"):
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            pass
    return line.decode("latin-1")
