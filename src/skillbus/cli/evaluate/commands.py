"""`skillbus eval`."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.calibration.errors import CalibrationError
from skillbus.cli.errors import CannotEvaluateError, LocalFileError
from skillbus.cli.evaluate.view import (
    render_agent_report,
    render_knowledge_report,
    render_log_report,
    render_tool_report,
)
from skillbus.cli.session import LocalSession, server_command
from skillbus.common.bus.connection import BusUnreachableError
from skillbus.common.runner import StartError, configure_logging
from skillbus.contracts.errors import RequestError
from skillbus.evaluation.cases import EvaluationError, load_cases
from skillbus.evaluation.knowledge_cases import load_knowledge_cases
from skillbus.evaluation.log_templates import measure_log_folder

Corpus = Annotated[
    Path,
    typer.Option("--corpus", exists=True, dir_okay=False, help="JSON lines with id, name, description of tools."),
]
Queries = Annotated[
    Path,
    typer.Option(
        "--queries", exists=True, dir_okay=False, help="JSON lines with query and relevant tool ids; [] if none fits."
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="Folder with docs.jsonl (items) and *queries.jsonl."
    ),
]
LogFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="Folder with *.log beside *_structured_corrected.csv."
    ),
]
LimitQueries = Annotated[
    int | None, typer.Option("--limit-queries", min=1, help="Number of queries; the same ones are taken each time.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="Local embedding model. Default: the built-in one.", show_default=False)
]

_FORMS: Final = (
    'A line of --corpus is like {"id": "1", "name": "git-commit", "description": "..."}, and may have tool_type, tags, '
    'parameters, examples and lang; one of --queries is like {"query": "commit my work", "relevant": ["1"]}, and may '
    "have lang, kind and any_of."
)
_KNOWLEDGE_FORMS: Final = (
    'A line of docs.jsonl is like {"id": "1", "type": "business_rule", "title": "...", "content": "..."}, and may have '
    'scope, tags, lang and the other fields of an item; one of *queries.jsonl is like {"query": "...", "relevant": '
    '[{"id": "1", "grade": 1}]}, and may have scope, lang and kind.'
)

_LOG_FORMS: Final = (
    "Beside app.log, app.log_structured_corrected.csv has one row for each line of the log, with the columns LineId, "
    "EventTemplate or EventId."
)


@server_command("skillbus eval tools --corpus tools.jsonl --queries queries.jsonl --limit-queries 200")
async def evaluate_tools(
    session: LocalSession,
    corpus: Corpus,
    queries: Queries,
    limit_queries: LimitQueries = None,
    model: ModelOption = None,
) -> None:
    """Measure how well tools are found, on a catalogue and queries with known relevance.

    Starts a separate system, imports the catalogue, sends every query, and compares the hits with those of BM25. The
    system is removed afterwards, and a running server is not touched: `skillbus eval installed` asks that one.
    """
    # The services take a second of CPU to import, which help pages need not wait for.
    from skillbus.evaluation.runner import run_tool_evaluation  # noqa: PLC0415

    configure_logging("ERROR")
    with report_errors(_FORMS), session.output.show_steps() as show_step:
        cases = load_cases(corpus, queries)
        if limit_queries is not None:
            cases = cases.sampled(limit_queries)
        report = await run_tool_evaluation(cases, lambda step, done, total: show_step("eval", step, done, total), model)
    session.output.show_result(report.document(), lambda: render_tool_report(report))


@server_command("skillbus eval knowledge ./judged --limit-queries 200")
async def evaluate_knowledge(
    session: LocalSession,
    folder: Folder,
    limit_queries: LimitQueries = None,
    model: ModelOption = None,
) -> None:
    """Measure how well knowledge is found, on items and queries with known relevance.

    Works like `skillbus eval tools`, and also measures how reliable the scores are.
    """
    from skillbus.evaluation.runner import run_knowledge_evaluation  # noqa: PLC0415 (as above)

    configure_logging("ERROR")
    with report_errors(_KNOWLEDGE_FORMS), session.output.show_steps() as show_step:
        cases = load_knowledge_cases(folder)
        if limit_queries is not None:
            cases = cases.sampled(limit_queries)
        report = await run_knowledge_evaluation(
            cases, lambda step, done, total: show_step("eval", step, done, total), model
        )
    session.output.show_result(report.document(), lambda: render_knowledge_report(report))


@server_command("skillbus eval logs ./logs --json")
async def evaluate_logs(session: LocalSession, folder: LogFolder) -> None:
    """Measure how well templates of logs are mined, on logs with known templates.

    Prints the group accuracy (ga) and its F1 (fga) of each log and their means. A log is named by its file up to
    `_2k`, or else without suffix. Needs no server.
    """
    with report_errors(_LOG_FORMS):
        report = measure_log_folder(folder)
    session.output.show_result(report.document(), lambda: render_log_report(report))


@server_command("skillbus eval agent --corpus tools.jsonl --queries queries.jsonl --limit-queries 200")
async def evaluate_agent(
    session: LocalSession,
    corpus: Corpus,
    queries: Queries,
    limit_queries: LimitQueries = None,
    model: ModelOption = None,
) -> None:
    """Measure whether chats are shown the right tools, on a catalogue and queries with known relevance.

    Works like `skillbus eval tools`. Each query is a turn of a chat with a scripted model, which calls the right ones
    of the tools that it is shown before the first step.
    """
    from skillbus.evaluation.runner import run_agent_evaluation  # noqa: PLC0415 (as above)

    configure_logging("ERROR")
    with report_errors(_FORMS), session.output.show_steps() as show_step:
        cases = load_cases(corpus, queries)
        if limit_queries is not None:
            cases = cases.sampled(limit_queries)
        report = await run_agent_evaluation(
            cases, lambda step, done, total: show_step("eval", step, done, total), model
        )
    session.output.show_result(report.document(), lambda: render_agent_report(report))


@contextmanager
def report_errors(forms: str) -> Generator[None]:
    """Turn errors of the evaluation into errors of the command line. `forms` is the advice on unreadable files."""
    try:
        yield
    except CalibrationError as error:
        raise LocalFileError(str(error), forms) from error
    except (EvaluationError, RequestError, StartError, BusUnreachableError) as error:
        raise CannotEvaluateError(str(error)) from error
