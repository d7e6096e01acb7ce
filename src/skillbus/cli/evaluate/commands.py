"""`skillbus eval tools` and `skillbus eval knowledge`."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillbus.cli.errors import LocalFileError
from skillbus.cli.evaluate.errors import CannotEvaluateError
from skillbus.cli.session import ServerSession, local

if TYPE_CHECKING:
    from skillbus.cli.output import ShowBar
    from skillbus.evaluation.answers import Progress
    from skillbus.evaluation.cases import Cases
    from skillbus.evaluation.knowledge_cases import KnowledgeCases
    from skillbus.evaluation.knowledge_report import KnowledgeReport
    from skillbus.evaluation.report import Report

Corpus = Annotated[
    Path,
    typer.Option("--corpus", exists=True, dir_okay=False, help="JSON lines with id, name, description of tools."),
]
Queries = Annotated[
    Path,
    typer.Option(
        "--queries",
        exists=True,
        dir_okay=False,
        help="JSON lines with query and relevant: ids of tools, [] if none fits.",
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="docs.jsonl: items; *queries.jsonl: queries and ids."
    ),
]
LimitQueries = Annotated[
    int | None, typer.Option("--limit-queries", min=1, help="Only so many requests, always the same ones.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="A local embedding model; the default one if absent.", show_default=False)
]

_FORMS = (
    'A line of --corpus is like {"id": "1", "name": "git-commit", "description": "..."}, and may have tool_type, tags, '
    'parameters, examples and lang; one of --queries is like {"query": "commit my work", "relevant": ["1"]}, and may '
    "have lang, kind and any_of."
)


_KNOWLEDGE_FORMS = (
    'A line of docs.jsonl is like {"id": "1", "type": "business_rule", "title": "...", "content": "..."}, and may have '
    'scope, tags, lang and what else an item has; one of *queries.jsonl is like {"query": "...", "relevant": '
    '[{"id": "1", "grade": 1}]}, and may have scope, lang and kind.'
)


async def evaluate_tools(
    session: ServerSession,
    corpus: Corpus,
    queries: Queries,
    limit_queries: LimitQueries = None,
    model: ModelOption = None,
) -> None:
    """Measure how well tools are found, on a catalogue and requests of which it is known what fits.

    Starts a system of its own with nothing else in it, imports the catalogue, makes every request as others do, and
    compares with BM25, which finds by words alone. Nothing of it is kept, and a server that runs is not touched.
    """
    from skillbus.cli.evaluate import tool_view as evaluate_table  # noqa: PLC0415 (slow)
    from skillbus.common.logs import configure_logging  # noqa: PLC0415 (slow)

    configure_logging("ERROR")
    cases = _read(corpus, queries)
    if limit_queries is not None:
        cases = cases.sampled(limit_queries)
    with session.output.bars() as show, _as_cli_errors():
        report = await _measured(cases, model, _progress(show))
    session.output.show(report.document(), lambda: evaluate_table.table(report))


async def evaluate_knowledge(
    session: ServerSession,
    folder: Folder,
    limit_queries: LimitQueries = None,
    model: ModelOption = None,
) -> None:
    """Measure how well knowledge is found, on items and queries of which it is known what answers.

    As `eval tools`, for the knowledge base; it tells how far scores can be believed, too.
    """
    from skillbus.cli.evaluate import knowledge_view as evaluate_knowledge_table  # noqa: PLC0415 (slow)
    from skillbus.common.logs import configure_logging  # noqa: PLC0415 (slow)

    configure_logging("ERROR")
    cases = _read_knowledge(folder)
    if limit_queries is not None:
        cases = cases.sampled(limit_queries)
    with session.output.bars() as show, _as_cli_errors():
        report = await _knowledge_measured(cases, model, _progress(show))
    session.output.show(report.document(), lambda: evaluate_knowledge_table.table(report))


def commands() -> typer.Typer:
    """The group `eval`."""
    group = typer.Typer(
        help="How well search does, on data of which it is known what fits.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_eval)
    group.command("tools")(local(evaluate_tools))
    group.command("knowledge")(local(evaluate_knowledge))
    return group


def _eval() -> None:
    """How well search does, on data of which it is known what fits."""


def _read(corpus: Path, queries: Path) -> "Cases":
    """Before anything is started."""
    from skillbus.calibration.errors import CalibrationError  # noqa: PLC0415 (slow)
    from skillbus.evaluation.cases import read_cases  # noqa: PLC0415 (slow)

    try:
        return read_cases(corpus, queries)
    except CalibrationError as error:
        raise LocalFileError(str(error), _FORMS) from error


def _read_knowledge(folder: Path) -> "KnowledgeCases":
    """As `_read`."""
    from skillbus.calibration.errors import CalibrationError  # noqa: PLC0415 (slow)
    from skillbus.evaluation.knowledge_cases import read_knowledge_cases  # noqa: PLC0415 (slow)

    try:
        return read_knowledge_cases(folder)
    except CalibrationError as error:
        raise LocalFileError(str(error), _KNOWLEDGE_FORMS) from error


async def _measured(cases: "Cases", model: str | None, progress: "Progress") -> "Report":
    from skillbus.evaluation.runner import evaluated  # noqa: PLC0415 (slow)

    return await evaluated(cases, progress, model)


async def _knowledge_measured(cases: "KnowledgeCases", model: str | None, progress: "Progress") -> "KnowledgeReport":
    from skillbus.evaluation.runner import knowledge_evaluated  # noqa: PLC0415 (slow)

    return await knowledge_evaluated(cases, progress, model)


def _progress(show: "ShowBar") -> "Progress":
    return lambda step, done, total: show("eval", step, done, total)


@contextmanager
def _as_cli_errors() -> Generator[None]:
    from skillbus.common.bus.connection import BusUnreachableError  # noqa: PLC0415 (slow)
    from skillbus.common.runner import StartError  # noqa: PLC0415 (slow)
    from skillbus.contracts.errors import RequestError  # noqa: PLC0415 (slow)
    from skillbus.evaluation.errors import EvaluationError  # noqa: PLC0415 (slow)

    try:
        yield
    except (EvaluationError, RequestError, StartError, BusUnreachableError) as error:
        raise CannotEvaluateError(str(error)) from error
