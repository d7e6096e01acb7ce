"""`skillbus import tools`."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from skillbus.cli import tool_tables
from skillbus.cli.errors import LocalFileError, NotImportedError
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

File = Annotated[str, typer.Argument(metavar="FILE", help="Descriptions: NDJSON or a JSON array; - for stdin.")]
Source = Annotated[str | None, typer.Option("--source", help="Who describes them; what each says itself if absent.")]
Review = Annotated[bool, typer.Option("--review", help="Hold changed and suspicious ones until they are accepted.")]

_CHUNK_BYTES: Final = 64 * 1024


async def import_tools(session: Session, file: File, source: Source = None, review: Review = False) -> None:
    """Describe tools, thousands at once: a JSON object a line, or one array of them.

    Each needs `id` and `name`; `description`, `tool_type`, `tags`, `parameters`, `examples`, `provider`, `source` and
    `metadata` say more. What is known already and did not change costs nothing. Exits with 1 when any was rejected; the
    others are taken.
    """
    wishes = ({"source": source} if source else {}) | ({"review_changes": "true"} if review else {})
    with _opened(file) as (content, size_bytes), session.output.sending(_name(file), size_bytes) as sent:
        report = await session.tools.import_tools(_chunks(content, sent), size_bytes, wishes)
    session.output.show(report, lambda: tool_tables.imported(report))
    rejected = report.counts.get("rejected", 0)
    if rejected:
        if not session.output.as_json:
            session.output.fail(
                NotImportedError(f"{rejected} of {report.total} were rejected", "Correct these lines, import it again.")
            )
        raise typer.Exit(NotImportedError.exit_code)


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


async def _chunks(content: BinaryIO, sent: Callable[[int], None]) -> AsyncIterator[bytes]:
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk
        sent(len(chunk))


def _name(file: str) -> str:
    return "standard input" if file == "-" else Path(file).name
