"""`skillbus import tools`."""

import asyncio
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from skillbus.cli import tool_tables
from skillbus.cli.errors import CliError, LocalFileError, NotImportedError
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillbus.cli.replies import ToolsImported

File = Annotated[str, typer.Argument(metavar="FILE", help="Descriptions: NDJSON or a JSON array; - for stdin.")]
Source = Annotated[str | None, typer.Option("--source", help="Who describes them; what each says itself if absent.")]
Review = Annotated[bool, typer.Option("--review", help="Hold changed and suspicious ones until they are accepted.")]

_CHUNK_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 512 * 1024
"""Of some thousand tools: a part takes some seconds, and the bar goes on after each."""


async def import_tools(session: Session, file: File, source: Source = None, review: Review = False) -> None:
    """Describe tools, thousands at once: a JSON object a line, or one array of them.

    Each needs `id` and `name`; `description`, `tool_type`, `tags`, `parameters`, `examples`, `provider`, `source` and
    `metadata` say more. What is known already and did not change costs nothing. Exits with 1 when any was rejected; the
    others are taken.
    """
    wishes = ({"source": source} if source else {}) | ({"review_changes": "true"} if review else {})
    with _opened(file) as (content, size_bytes), session.output.sending(_name(file), size_bytes) as done:
        report = await _import(session, content, wishes, done)
    session.output.show(report, lambda: tool_tables.imported(report))
    rejected = report.counts.get("rejected", 0)
    if rejected:
        if not session.output.as_json:
            session.output.fail(
                NotImportedError(f"{rejected} of {report.total} were rejected", "Correct these lines, import it again.")
            )
        raise typer.Exit(NotImportedError.exit_code)


async def _import(
    session: Session, content: BinaryIO, wishes: dict[str, str], done: Callable[[int], None]
) -> "ToolsImported":
    """Send a file part by part: only what is answered is done, whatever the network has taken already."""
    line = 1
    reports: list[ToolsImported] = []
    head = content.read(_CHUNK_BYTES)
    is_array = head.removeprefix(BOM_UTF8).lstrip().startswith(b"[")
    while head or not reports:
        part = _Part(content, head, is_whole=is_array)
        try:
            report = await session.tools.import_tools(part.chunks(), wishes | {"first_line": str(line)})
        except (CliError, asyncio.CancelledError) as error:
            if reports or isinstance(error, asyncio.CancelledError):
                session.output.note(f"Lines before {line} are done. To import the file again does no harm.")
            raise
        reports.append(report)
        done(part.size_bytes)
        line += part.line_ends
        head = content.read(_CHUNK_BYTES)
    return _together(reports)


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


def _together(reports: "list[ToolsImported]") -> "ToolsImported":
    from skillbus.cli.replies import ToolsImported  # noqa: PLC0415 (slow)

    counts = Counter[str]()
    for report in reports:
        counts.update(report.counts)
    return ToolsImported(
        total=sum(report.total for report in reports),
        counts=dict(counts),
        indexed=all(report.indexed for report in reports),
        results=tuple(result for report in reports for result in report.results),
    )


@contextmanager
def _opened(file: str) -> "Iterator[tuple[BinaryIO, int | None]]":
    """The file, and its size if that is known.

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
                raise LocalFileError(f"{file} is empty", 'A description is a line: {"id": …, "name": …, …}')
            yield content, size_bytes
    except OSError as error:
        raise LocalFileError(f"{file}: {error.strerror or error}", "Check the path and its permissions.") from error


def _name(file: str) -> str:
    return "standard input" if file == "-" else Path(file).name
