"""Sending a file of many objects part by part: what is answered is done, and a bar tells how far it is."""

import asyncio
import sys
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from skillbus.cli.errors import CliError, LocalFileError
from skillbus.cli.output import Output

_CHUNK_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 512 * 1024
"""Of some thousand tools: a part takes some seconds, and the bar goes on after each."""

ReportT = TypeVar("ReportT")
SendPart = Callable[[AsyncIterator[bytes], int], Awaitable[ReportT]]
"""Sends a part of a file, and says which line of the file is its first."""


async def send_parts(
    output: Output, content: BinaryIO, send: SendPart[ReportT], done: Callable[[int], None]
) -> list[ReportT]:
    """The report of each part of NDJSON, or the one of an array, which goes as a whole.

    Only what is answered is done, whatever the network has taken already: `done` is told of so many bytes more.
    """
    line = 1
    reports: list[ReportT] = []
    head = content.read(_CHUNK_BYTES)
    is_array = head.removeprefix(BOM_UTF8).lstrip().startswith(b"[")
    while head or not reports:
        part = _Part(content, head, is_whole=is_array)
        try:
            report = await send(part.chunks(), line)
        except (CliError, asyncio.CancelledError) as error:
            if reports or isinstance(error, asyncio.CancelledError):
                output.note(f"Lines before {line} are done. To import the file again does no harm.")
            raise
        reports.append(report)
        done(part.size_bytes)
        line += part.line_ends
        head = content.read(_CHUNK_BYTES)
    return reports


@contextmanager
def opened_file(file: str, example: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """The file, or standard input if it is `-`, and its size if that is known; `example` says what belongs into it.

    Raises:
        LocalFileError: It cannot be read, or there is nothing in it.
    """
    if file == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(file)
    try:
        with path.open("rb") as content:
            is_file = path.is_file()
            size_bytes = path.stat().st_size if is_file else None
            if size_bytes == 0:
                raise LocalFileError(f"{file} is empty", example)
            yield content, size_bytes
    except OSError as error:
        raise LocalFileError(f"{file}: {error.strerror or error}", "Check the path and its permissions.") from error


def name_of(file: str) -> str:
    """What the bar calls it."""
    return "standard input" if file == "-" else Path(file).name


@dataclass(slots=True)
class _Part:
    """Some hundreds of lines of a file from `head` on, which is read already; or all the rest of it."""

    content: BinaryIO
    head: bytes
    is_whole: bool
    size_bytes: int = 0
    line_ends: int = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        chunk = self.head
        while chunk:
            yield chunk
            self.size_bytes += len(chunk)
            self.line_ends += chunk.count(b"\n")
            chunk = self._next(chunk)

    def _next(self, chunk: bytes) -> bytes:
        if self.is_whole or self.size_bytes < _PART_BYTES:
            return self.content.read(_CHUNK_BYTES)
        return b"" if chunk.endswith(b"\n") else self.content.readline(_CHUNK_BYTES)
