"""Input files: read whole, or uploaded in parts so that a bar can show what the server has finished."""

import asyncio
import json
import sys
from base64 import b64encode
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import BinaryIO, Final, TypeVar

import typer

from skillbus.cli.errors import CliError, LocalFileError
from skillbus.cli.output import CommandOutput

STDIN: Final = "-"
_CHUNK_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 512 * 1024
"""Largest upload. It is not bound by NATS: the gateway cuts its messages itself."""
_ARRAY_BYTES: Final = 64 * 1024 * 1024
"""Size from which a JSON array is uploaded as a whole. A smaller one is parsed here and uploaded in parts."""
_SHORT_PART_S: Final = 0.5
"""Time of an upload below which the next one is larger."""

ReportT = TypeVar("ReportT")
SendPart = Callable[[AsyncIterator[bytes], int], Awaitable[ReportT]]
"""Uploads a part of a file; receives the part and the number of its first line."""


def read_input(file: str) -> bytes:
    """Return the content of a file, or of standard input if it is `-`.

    Raises:
        LocalFileError: It cannot be read.
    """
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise LocalFileError.from_os_error(file, error) from error


def decode_text(content: bytes, file: str) -> str:
    """Decode a file's content as UTF-8.

    Raises:
        LocalFileError: It is in another encoding.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LocalFileError(f"{file} is not UTF-8: {error}", "Save it as UTF-8.") from error


async def upload_lines(output: CommandOutput, file: str, example: str, send: SendPart[ReportT]) -> list[ReportT]:
    """Upload a file of NDJSON, or a JSON array, in parts, and return the report of each part.

    Args:
        output: Shows a bar that moves when the server has finished a part.
        file: Path, or `-` for standard input.
        example: Advice on the content, printed if the file is empty.
        send: Uploads one part.

    Raises:
        LocalFileError: The file cannot be read or is empty.
    """
    with _open_input(file, example) as opened:
        content, head, is_array = opened, opened.read(_CHUNK_BYTES), False
        if head.removeprefix(BOM_UTF8).lstrip().startswith(b"["):
            content, head, is_array = _open_array(opened, head)
        name = "standard input" if file == STDIN else Path(file).name
        with output.show_items(name, None if is_array else _count_lines(content)) as add_done:
            return await _upload_parts(output, content, head, send, add_done, is_whole=is_array)


@dataclass(slots=True)
class PartSize:
    """Number of items to send at once: so many that a part takes the server about a second."""

    items: int = 100
    _begun_s: float = field(default_factory=perf_counter)

    def adapt(self) -> None:
        """Change the number by the time since the last part ended."""
        took_s, self._begun_s = perf_counter() - self._begun_s, perf_counter()
        if took_s < _SHORT_PART_S:
            self.items *= 2
        elif took_s > 4 * _SHORT_PART_S:
            self.items = max(1, self.items // 2)


async def _upload_parts(
    output: CommandOutput,
    content: BinaryIO,
    head: bytes,
    send: SendPart[ReportT],
    add_done: Callable[[int], None],
    *,
    is_whole: bool,
) -> list[ReportT]:
    line, size = 1, PartSize()
    reports: list[ReportT] = []
    while head or not reports:
        part = _Part(content, head, None if is_whole else size.items)
        try:
            report = await send(part.iterate_chunks(), line)
        except (CliError, asyncio.CancelledError) as error:
            if reports or isinstance(error, asyncio.CancelledError):
                output.print_note(f"Lines before {line} are imported. You can import the whole file again.")
            raise
        reports.append(report)
        add_done(part.lines)
        size.adapt()
        line += part.lines
        head = part.rest or content.read(_CHUNK_BYTES)
    return reports


@contextmanager
def _open_input(file: str, example: str) -> Iterator[BinaryIO]:
    """Open a file or standard input."""
    if file == STDIN:
        yield sys.stdin.buffer
        return
    path = Path(file)
    try:
        with path.open("rb") as content:
            if path.is_file() and path.stat().st_size == 0:
                raise LocalFileError(f"{file} is empty", example)
            yield content
    except OSError as error:
        raise LocalFileError.from_os_error(file, error) from error


def _open_array(content: BinaryIO, head: bytes) -> tuple[BinaryIO, bytes, bool]:
    """Return the elements of a JSON array as lines, with the first chunk.

    An array that is large or not valid is returned as it is, with True: the server says where the mistake is.
    """
    text = head + content.read(_ARRAY_BYTES)
    try:
        elements = json.loads(text) if len(text) < _ARRAY_BYTES else None
        if isinstance(elements, list) and elements and all(isinstance(it, dict) for it in elements):
            lines = BytesIO("".join(f"{json.dumps(it, ensure_ascii=False)}\n" for it in elements).encode())
            return lines, lines.read(_CHUNK_BYTES), False
    except (ValueError, RecursionError):
        pass
    return content, text, True


def _count_lines(content: BinaryIO) -> int | None:
    """Return the number of lines of a file, of which a chunk is read; None if it cannot be read twice."""
    if not content.seekable():
        return None
    read_on = content.tell()
    content.seek(0)
    count, last = 0, b"\n"
    while chunk := content.read(_CHUNK_BYTES):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    content.seek(read_on)
    return count + (last != b"\n")


@dataclass(slots=True)
class _Part:
    """Part of a file. It begins with `head`, which is already read, and ends after a whole line."""

    content: BinaryIO
    head: bytes
    max_lines: int | None
    """None if the part is the rest of the file."""
    size_bytes: int = 0
    lines: int = 0
    rest: bytes = b""
    """Text behind the part that is already read."""

    async def iterate_chunks(self) -> AsyncIterator[bytes]:
        chunk = self.head
        while chunk:
            if self.max_lines is not None and self.lines + chunk.count(b"\n") >= self.max_lines:
                end = _find_line_end(chunk, self.max_lines - self.lines)
                chunk, self.rest = chunk[:end], chunk[end:]
            yield chunk
            self.size_bytes += len(chunk)
            self.lines += chunk.count(b"\n")
            if self.max_lines is None or (self.size_bytes < _PART_BYTES and self.lines < self.max_lines):
                if not (following := self.content.read(_CHUNK_BYTES)) and not chunk.endswith(b"\n"):
                    self.lines += 1
                chunk = following
            else:
                chunk = b"" if chunk.endswith(b"\n") else self.content.readline(_CHUNK_BYTES)


def _find_line_end(text: bytes, number: int) -> int:
    """Return the position behind a line, by its number from 1."""
    end = 0
    for _ in range(number):
        end = text.index(b"\n", end) + 1
    return end


def encode_files(paths: list[Path]) -> dict[str, str]:
    """Read the files of --file, in base64, by base name."""
    contents: dict[str, str] = {}
    for path in paths:
        name = path.resolve().name if path.name in {"", ".."} else path.name
        if name in contents:
            raise typer.BadParameter(f"two files are called {name}: rename one of them", param_hint="--file")
        try:
            contents[name] = b64encode(path.read_bytes()).decode()
        except OSError as error:
            raise LocalFileError.from_os_error(path, error) from error
    return contents
