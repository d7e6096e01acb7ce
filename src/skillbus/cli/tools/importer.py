"""`skillbus tools import`."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer

from skillbus.cli import tables
from skillbus.cli.client.http_api import IMPORT_S, NDJSON, TOOLS
from skillbus.cli.errors import NotImportedError
from skillbus.cli.input_files import upload_lines
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.http import ToolsImported
from skillbus.contracts.indexer.tools import ToolPutOutcome

File = Annotated[str, typer.Argument(metavar="FILE", help="NDJSON or a JSON array of descriptions; - for stdin.")]
Source = Annotated[
    str | None, typer.Option("--source", help="Source of the tools. Default: the `source` of each description.")
]
Review = Annotated[
    bool, typer.Option("--review", help="Quarantine changed and suspicious descriptions until you accept them.")
]

_EXAMPLE: Final = 'A description is a line: {"id": …, "name": …, …}'


@remote_command("skillbus tools import tools.ndjson --source crm")
async def import_tools(session: Session, file: File, source: Source = None, review: Review = False) -> None:
    """Import descriptions of tools: one JSON object a line, or one JSON array.

    Each description needs `id` and `name`, and may have `description`, `tags`, `parameters`, `examples`, `provider`,
    `source` and `metadata`. The tools are of type `external`: skillbus finds them and cannot call them. Unchanged
    descriptions are skipped. Exits with 1 if any is rejected; the others are imported.
    """
    params = {"only": "problems"} | session.connection.scope | ({"source": source} if source else {})
    params |= {"review_changes": "true"} if review else {}

    async def send(part: AsyncIterator[bytes], first_line: int) -> ToolsImported:
        return await session.connection.request(
            ToolsImported,
            "PUT",
            TOOLS,
            params=params | {"first_line": str(first_line)},
            content=part,
            headers={b"Content-Type": NDJSON},
            wait_s=IMPORT_S,
        )

    reports = await upload_lines(session.output, file, _EXAMPLE, send)
    counts = Counter[ToolPutOutcome]()
    for part in reports:
        counts.update(part.counts)
    report = ToolsImported(
        total=sum(part.total for part in reports),
        counts=dict(counts),
        indexed=all(part.indexed for part in reports),
        results=tuple(line for part in reports for line in part.results),
    )
    problems = []
    for line in report.results:
        messages = filter(None, (line.error, *(finding.message for finding in line.findings)))
        problems.append((str(line.line), line.id or "-", line.outcome.value, "; ".join(messages)))
    later = "" if report.indexed else "; search finds them when the vector store and the embedder are back"
    summary = f"{format_number(report.total, 'tool')}{later}"
    session.output.show_result(
        report, lambda: tables.build_import_report("tools", report.counts, "line", problems, summary)
    )
    if rejected := counts[ToolPutOutcome.REJECTED]:
        advice = "Correct these lines and import the file again."
        session.fail(NotImportedError(f"{rejected} of {report.total} were rejected", advice))
