"""`skillbus import tools`."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli.errors import NotImportedError
from skillbus.cli.part_upload import name_of, opened_file, send_parts
from skillbus.cli.session import Session
from skillbus.cli.tools import view as tool_tables

if TYPE_CHECKING:
    from skillbus.cli.client.replies import ToolsImported

File = Annotated[str, typer.Argument(metavar="FILE", help="Descriptions: NDJSON or a JSON array; - for stdin.")]
Source = Annotated[str | None, typer.Option("--source", help="Who describes them; what each says itself if absent.")]
Review = Annotated[bool, typer.Option("--review", help="Hold changed and suspicious ones until they are accepted.")]

_EXAMPLE: Final = 'A description is a line: {"id": …, "name": …, …}'


async def import_tools(session: Session, file: File, source: Source = None, review: Review = False) -> None:
    """Describe tools, thousands at once: a JSON object a line, or one array of them.

    Each needs `id` and `name`; `description`, `tags`, `parameters`, `examples`, `provider`, `source` and `metadata` say
    more. They are of type `external`: skillbus finds them and cannot call them. A tool that did not change costs
    nothing. Exits with 1 when any was rejected; the others are taken.
    """
    wishes = ({"source": source} if source else {}) | ({"review_changes": "true"} if review else {})

    async def send(part: AsyncIterator[bytes], first_line: int) -> "ToolsImported":
        return await session.tools.import_tools(part, wishes | {"first_line": str(first_line)})

    with (
        opened_file(file, _EXAMPLE) as (content, size_bytes),
        session.output.sending(name_of(file), size_bytes) as done,
    ):
        report = _together(await send_parts(session.output, content, send, done))
    session.output.show(report, lambda: tool_tables.imported(report))
    rejected = report.counts.get("rejected", 0)
    if rejected:
        if not session.output.as_json:
            session.output.fail(
                NotImportedError(f"{rejected} of {report.total} were rejected", "Correct these lines, import it again.")
            )
        raise typer.Exit(NotImportedError.exit_code)


def _together(reports: "list[ToolsImported]") -> "ToolsImported":
    from skillbus.cli.client.replies import ToolsImported  # noqa: PLC0415 (slow)

    counts = Counter[str]()
    for report in reports:
        counts.update(report.counts)
    return ToolsImported(
        total=sum(report.total for report in reports),
        counts=dict(counts),
        indexed=all(report.indexed for report in reports),
        results=tuple(result for report in reports for result in report.results),
    )
