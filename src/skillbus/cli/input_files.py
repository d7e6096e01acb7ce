"""Input files: read whole, or uploaded in parts so that a bar can show what the server has finished."""

import asyncio
import sys
from base64 import b64encode
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import typer

from skillbus.cli.errors import CliError, LocalFileError
from skillbus.cli.output import CommandOutput

STDIN: Final = "-"
_CHUNK_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 512 * 1024
"""Size of one upload, some thousand tools. It is not bound by NATS: the gateway cuts its messages itself. A part takes
some seconds, and the bar moves after each."""

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
    """Upload a file of NDJSON in parts, or a JSON array as a whole, and return the report of each part.

    Args:
        output: Shows a bar that moves when the server has finished a part.
        file: Path, or `-` for standard input.
        example: Advice on the content, printed if the file is empty.
        send: Uploads one part.

    Raises:
        LocalFileError: The file cannot be read or is empty.
    """
    name = "standard input" if file == STDIN else Path(file).name
    with _open_input(file, example) as (content, size_bytes), output.show_transfer(name, size_bytes) as add_done:
        line = 1
        reports: list[ReportT] = []
        head = content.read(_CHUNK_BYTES)
        is_array = head.removeprefix(BOM_UTF8).lstrip().startswith(b"[")
        while head or not reports:
            part = _Part(content, head, is_whole=is_array)
            try:
                report = await send(part.iterate_chunks(), line)
            except (CliError, asyncio.CancelledError) as error:
                if reports or isinstance(error, asyncio.CancelledError):
                    output.print_note(f"Lines before {line} are imported. You can import the whole file again.")
                raise
            reports.append(report)
            add_done(part.size_bytes)
            line += part.line_ends
            head = content.read(_CHUNK_BYTES)
        return reports


@contextmanager
def _open_input(file: str, example: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open a file or standard input; yield it with its size, or None if the size is unknown."""
    if file == STDIN:
        yield sys.stdin.buffer, None
        return
    path = Path(file)
    try:
        with path.open("rb") as content:
            size_bytes = path.stat().st_size if path.is_file() else None
            if size_bytes == 0:
                raise LocalFileError(f"{file} is empty", example)
            yield content, size_bytes
    except OSError as error:
        raise LocalFileError.from_os_error(file, error) from error


@dataclass(slots=True)
class _Part:
    """Part of a file. It begins with `head`, which is already read, and ends after a whole line."""

    content: BinaryIO
    head: bytes
    is_whole: bool
    """True if the part is the rest of the file."""
    size_bytes: int = 0
    line_ends: int = 0

    async def iterate_chunks(self) -> AsyncIterator[bytes]:
        chunk = self.head
        while chunk:
            yield chunk
            self.size_bytes += len(chunk)
            self.line_ends += chunk.count(b"\n")
            if self.is_whole or self.size_bytes < _PART_BYTES:
                chunk = self.content.read(_CHUNK_BYTES)
            else:
                chunk = b"" if chunk.endswith(b"\n") else self.content.readline(_CHUNK_BYTES)


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
