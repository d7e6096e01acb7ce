"""`skillbus eval queryir` and `skillbus eval commands`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.cli.evaluate.commands import ModelOption, report_errors
from skillbus.cli.evaluate.queryir_view import render_command_report, render_queryir_report
from skillbus.cli.session import LocalSession, server_command
from skillbus.common.runner import configure_logging
from skillbus.evaluation.queryir.command_queries import load_command_cases
from skillbus.evaluation.queryir.rows import load_queryir_cases

SentenceFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="Folder with queryir.jsonl, inventory.jsonl and spec.jsonl."
    ),
]
CommandFolder = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Folder with spec.jsonl and spec_queries.jsonl."),
]
Failures = Annotated[bool, typer.Option("--failures", help="Also show what was not found as expected.")]

_QUERYIR_FORMS: Final = (
    'A line of queryir.jsonl is like {"id": "1", "utterance": "打开卧室的灯", "lang": "zh", "inventory": "home-a", '
    '"ir": {"action": "打开", "action_code": "turn_on", "type_hint": "light", "scope_include": ["卧室"]}}, and may '
    "have accept, context, expected_devices and source; inventory.jsonl has devices as `skillbus devices import` takes "
    "them."
)
_COMMAND_FORMS: Final = (
    "A line of spec.jsonl is a command as `skillbus commands import` takes it; one of spec_queries.jsonl is like "
    '{"query": "再亮一点", "expected_capability": ["switchLevel"]}.'
)


@server_command("skillbus eval queryir ./sentences --failures")
async def evaluate_queryir(
    session: LocalSession, folder: SentenceFolder, failures: Failures = False, model: ModelOption = None
) -> None:
    """Measure how well spoken commands are understood, on sentences with known QueryIR and devices.

    Starts a separate system, puts the homes and the command library, and sends every sentence. Prints the share with
    all fields right, and with exactly the expected devices, of each source and language. The system is removed
    afterwards, and a running server is not touched.
    """
    # The services take a second of CPU to import, which help pages need not wait for.
    from skillbus.evaluation.runner import run_queryir_evaluation  # noqa: PLC0415

    configure_logging("ERROR")
    with report_errors(_QUERYIR_FORMS), session.output.show_steps() as show_step:
        cases = load_queryir_cases(folder)
        report = await run_queryir_evaluation(
            cases, lambda step, done, total: show_step("eval", step, done, total), model
        )
    session.output.show_result(
        report.document(with_failures=failures), lambda: render_queryir_report(report, with_failures=failures)
    )


@server_command("skillbus eval commands ./sentences --failures")
async def evaluate_commands(
    session: LocalSession, folder: CommandFolder, failures: Failures = False, model: ModelOption = None
) -> None:
    """Measure how well commands of a library are found, on queries with known capabilities.

    Prints the share of queries with a right command in the first ten, and at the first place. Works like
    `skillbus eval queryir`.
    """
    from skillbus.evaluation.runner import run_command_evaluation  # noqa: PLC0415 (as above)

    configure_logging("ERROR")
    with report_errors(_COMMAND_FORMS), session.output.show_steps() as show_step:
        cases = load_command_cases(folder)
        report = await run_command_evaluation(
            cases, lambda step, done, total: show_step("eval", step, done, total), model
        )
    session.output.show_result(
        report.document(with_failures=failures), lambda: render_command_report(report, with_failures=failures)
    )
