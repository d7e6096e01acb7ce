"""`skillbus eval installed`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.cli.client.connection import ApiConnection
from skillbus.cli.client.http_api import COMMANDS, KNOWLEDGE, TOOLS
from skillbus.cli.evaluate.commands import report_errors
from skillbus.cli.evaluate.installed_view import render_installed_report
from skillbus.cli.evaluate.queryir_commands import Failures
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.retriever.command_resolution import CommandsFound
from skillbus.contracts.retriever.knowledge_search import KnowledgeFound
from skillbus.contracts.retriever.tool_search import ToolsFound
from skillbus.evaluation.installed import (
    InstalledAnswers,
    InstalledCases,
    InstalledKind,
    InstalledQuery,
    build_installed_report,
    load_installed_cases,
)
from skillbus.evaluation.measures import DEPTH

Kind = Annotated[InstalledKind, typer.Argument(metavar="KIND", help="What to search: tools, knowledge or commands.")]
QueryFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="JSON lines with queries and their right hits."),
]
Found = ToolsFound | KnowledgeFound | CommandsFound

_FORMS: Final = {
    InstalledKind.TOOLS: (
        'A line is like {"query": "commit my work", "relevant": ["skill:git-commit"]}; relevant is [] if none fits.'
    ),
    InstalledKind.KNOWLEDGE: (
        'A line is like {"query": "who approves refunds?", "relevant": [{"id": "..."}]}, and may have scope; '
        "relevant is [] if none fits."
    ),
    InstalledKind.COMMANDS: 'A line is like {"query": "再亮一点", "expected_capability": ["switchLevel"]}.',
}


@remote_command("skillbus eval installed tools queries.jsonl --failures")
async def evaluate_installed(session: Session, kind: Kind, file: QueryFile, failures: Failures = False) -> None:
    """Measure how well a running server finds what is installed, on queries with known right hits.

    Sends every query of the file, such as those kept on the page of searches. Nothing is changed, and it counts as no
    use. A right hit that is not installed counts as not found.
    """
    with report_errors(_FORMS[kind]):
        cases = load_installed_cases(kind, file)
    with session.output.show_steps() as show_step:
        answers = await _collect_answers(
            session.connection, cases, lambda done, total: show_step("eval", "Searching", done, total)
        )
    report = build_installed_report(cases, answers)
    session.output.show_result(
        report.document(with_failures=failures), lambda: render_installed_report(report, with_failures=failures)
    )


async def _collect_answers(
    connection: ApiConnection, cases: InstalledCases, progress: Callable[[int, int], None]
) -> InstalledAnswers:
    """Send each query twice: without a threshold, and with the default one, which commands do not have."""
    nearest, default = list[Found](), list[Found]()
    for done, query in enumerate(cases.queries, 1):
        nearest.append(await _search(connection, cases.kind, query, {"threshold": 0}))
        if cases.kind is not InstalledKind.COMMANDS:
            default.append(await _search(connection, cases.kind, query, {}))
        progress(done, len(cases.queries))
    return InstalledAnswers(
        nearest=[_list_names(found) for found in nearest],
        default=[_list_names(found) for found in default] if default else None,
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
    )


async def _search(
    connection: ApiConnection, kind: InstalledKind, query: InstalledQuery, more: dict[str, object]
) -> Found:
    body: dict[str, object] = {"query": query.text, **more, **connection.scope}
    if kind is InstalledKind.TOOLS:
        return await connection.request(ToolsFound, "POST", f"{TOOLS}/search", json=body | {"limit": DEPTH})
    if kind is InstalledKind.COMMANDS:
        return await connection.request(CommandsFound, "POST", f"{COMMANDS}/search", json=body | {"limit": DEPTH})
    body |= {"top_k": DEPTH, "content_characters": 0, "record_use": False}
    body |= {"scope": query.scope} if query.scope else {}
    return await connection.request(KnowledgeFound, "POST", f"{KNOWLEDGE}/search", json=body)


def _list_names(found: Found) -> list[str]:
    """Return what a line of the file names: ids, or the capabilities of commands."""
    if isinstance(found, CommandsFound):
        return [hit.capability for hit in found.results]
    if isinstance(found, KnowledgeFound):
        return [hit.item.id for hit in found.results]
    return [hit.id for hit in found.results]
