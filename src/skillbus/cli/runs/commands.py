"""`skillbus run` and `skillbus runs`."""

import asyncio
import sys
from base64 import b64encode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

import typer

from skillbus.cli.client.http_api import RUNS, SKILLS, build_strange_reply, join_path, parse_problem, parse_reply
from skillbus.cli.errors import EXIT_FAILED, LocalFileError, RunFailedError, StoppedError
from skillbus.cli.input_files import decode_text, read_input
from skillbus.cli.options import NameArgument, check_skill_name, parse_args
from skillbus.cli.output import CommandOutput, clean_text
from skillbus.cli.runs.artifacts import SavedArtifacts, fetch_content, save_artifacts
from skillbus.cli.runs.view import render_run, render_runs
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.http import RunPrinted, RunReply
from skillbus.contracts.sandbox.run_history import OutputStream, RunCancelled, RunFile, RunRecord, RunsListed
from skillbus.contracts.sandbox.skill_runs import RunStatus

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

Action = Annotated[
    str | None, typer.Argument(help="Action of the skill. Default: its default action.", show_default=False)
]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments by name, as a JSON object.")]
Stdin = Annotated[str | None, typer.Option("--stdin", metavar="FILE", help="Standard input of the skill; - for ours.")]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", exists=True, dir_okay=False, help="Input file of the skill. Repeatable."),
]
Out = Annotated[Path, typer.Option("--out", file_okay=False, help="Folder for the files that the skill writes.")]
Stream = Annotated[bool, typer.Option("--stream", help="Print the output as it arrives.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, max=3600, help="Seconds that the run may take.")]
RunId = Annotated[str | None, typer.Argument(metavar="ID", help="Id of one run.", show_default=False)]
Skill = Annotated[str | None, typer.Option("--skill", help="Only runs of this skill.")]
State = Annotated[str | None, typer.Option("--state", help="Only runs in this state: ok, failed, running, timeout, …")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Largest number of runs.")]
Save = Annotated[Path | None, typer.Option("--save", metavar="DIR", file_okay=False, help="Save the files of the run.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="End the run.")]

_RESULT_LINES: Final = 30
"""Lines of a result in JSON that a terminal shows. More would push the names of the saved files off the screen."""
_CANCEL_S: Final = 15.0
"""Seconds that a cancelled run has to return what it printed so far."""
_RUN_S: Final = 90.0
"""Seconds to wait for a run without a timeout: longer than the sandbox's own limit, which gives a proper reply."""
_SILENCE_S: Final = 60.0
"""Longest pause while a run is followed: the server sends a sign of life every 15 s."""
_PAGE_SIZE: Final = 200


@remote_command(
    'skillbus run csv-summary --args \'{"file": "orders.csv"}\' --file orders.csv', trailing_words="ARGV..."
)
async def run_skill(  # noqa: PLR0913, PLR0917 (one parameter for each option)
    session: Session,
    name: NameArgument,
    action: Action = None,
    args: Args = None,
    stdin: Stdin = None,
    files: Files = None,
    out: Out = Path(),
    timeout: Timeout = None,  # noqa: ASYNC109 (the run's timeout, not this function's)
    stream: Stream = False,
) -> None:
    """Run a skill in the sandbox.

    Arguments are --args JSON, or the words after --. The skill's output goes to stdout and stderr; the files that it
    writes go to --out, under free names. Exits with 1 unless the run's status is `ok`; --json shows the skill's own
    exit code. Ctrl-C ends the run and shows its output so far.
    """
    if stream and session.output.as_json:
        raise typer.BadParameter("--json prints one document when the run is over", param_hint="--stream")
    if args is not None and session.trailing_words is not None:
        raise typer.BadParameter("give --args or words after --, not both", param_hint="--args")
    name, run_id = check_skill_name(name), uuid4().hex
    fields: dict[str, object] = {
        "action": action,
        "args": None if args is None else parse_args(args),
        "argv": session.trailing_words,
        "stdin": None if stdin is None else _read_stdin(stdin),
        "files": _read_files(files) if files else None,
        "timeout_s": timeout,
        "run_id": run_id,
    }
    body = {field: value for field, value in fields.items() if value is not None}
    running = _follow_run(session, name, body) if stream else request_run(session.connection, name, body, timeout)
    reply = await _run_until_end(session, asyncio.create_task(running), run_id)
    fetch = partial(fetch_content, session.connection)
    saved = await save_artifacts(session.output, out, reply.artifacts, fetch)
    if session.output.as_json:
        document: dict[str, object] = reply.model_dump(mode="json", exclude={"artifacts"})
        document["artifacts"] = [
            artifact.model_dump(mode="json", exclude={"content"}) | {"saved_to": saved.paths.get(artifact.name)}
            for artifact in reply.artifacts
        ]
        document["errors"] = [error.document() for error in saved.errors]
        session.output.show_result(document, str)
    else:
        if not stream:
            print_output(session.output, reply)
        _print_status(session.output, reply)
        for error in saved.errors:
            session.output.print_error(error)
    if saved.errors or reply.status is not RunStatus.OK:
        raise typer.Exit(RunFailedError.exit_code)


@remote_command("skillbus runs --skill git-commit --state failed")
async def show_runs(
    session: Session,
    run_id: RunId = None,
    skill: Skill = None,
    state: State = None,
    limit: Limit = 20,
    save: Save = None,
    cancel: Cancel = False,
) -> None:
    """List the runs of the last day, newest first, or show one run with its limits and its usage.

    Arguments and output of a run are not kept; its files are, for a day.
    """
    if run_id is None:
        if save is not None or cancel:
            raise typer.BadParameter("give the id of the run", param_hint="ID")
        filters = ({"skill": check_skill_name(skill)} if skill else {}) | ({"state": state} if state else {})
        found, _ = await session.connection.list_rows(
            RunsListed, RUNS, filters, lambda page: (page.runs, page.next), page_size=_PAGE_SIZE, limit=limit
        )
        document: dict[str, object] = {"runs": [record.model_dump(mode="json") for record in found]}
        session.output.show_result(document, lambda: render_runs(found, session.output.out.width))
        return
    if cancel:
        cancelled = await _cancel_run(session, run_id)
        message = "The run is being ended." if cancelled.ending else "The run had already ended."
        session.output.show_result(cancelled, lambda: message)
        return
    path, params = join_path(RUNS, run_id), session.connection.scope
    record = await session.connection.request(RunRecord, "GET", path, params=params)
    document = record.model_dump(mode="json")
    saved = SavedArtifacts({}, [])
    if save is not None:

        async def fetch_artifact(artifact: RunFile) -> bytes:
            place = join_path(path, "artifacts", *artifact.name.split("/"))
            return (await session.connection.send("GET", place)).content

        saved = await save_artifacts(session.output, save, record.artifacts, fetch_artifact)
        document |= {"saved": saved.paths, "errors": [error.document() for error in saved.errors]}
    session.output.show_result(document, lambda: render_run(record))
    for error in saved.errors if not session.output.as_json else ():
        session.output.print_error(error)
    if saved.errors:
        raise typer.Exit(EXIT_FAILED)


def _read_stdin(file: str) -> str:
    try:
        return decode_text(read_input(file), file)
    except LocalFileError as error:
        raise typer.BadParameter(error.detail, param_hint="--stdin") from error


def _read_files(paths: list[Path]) -> dict[str, str]:
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


async def request_run(
    connection: "ApiConnection", name: str, body: dict[str, object], timeout_s: float | None = None
) -> RunReply:
    """Run a skill and wait for its end."""
    path, wait_s = join_path(SKILLS, name, "run"), max(_RUN_S, (timeout_s or 0) + 30)
    return await connection.request(RunReply, "POST", path, params=connection.scope, json=body, wait_s=wait_s)


async def _follow_run(session: Session, name: str, body: dict[str, object]) -> RunReply:
    """Run a skill, print its output as it arrives, and return the reply at its end."""
    path, params = join_path(SKILLS, name, "run"), {**session.connection.scope, "stream": "true"}
    async with session.connection.stream("POST", path, params=params, json=body, silence_s=_SILENCE_S) as response:
        event = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                event = value
            elif field == "data" and event == "output":
                _print_part(session.output, parse_reply(RunPrinted, value, response))
            elif field == "data" and event == "error":
                raise parse_problem(value.encode(), response)
            elif field == "data" and event == "reply":
                return parse_reply(RunReply, value, response)
    raise build_strange_reply(response, "it ended without the reply of the run")


def _print_part(output: CommandOutput, part: RunPrinted) -> None:
    if part.stream is OutputStream.STDERR:
        sys.stderr.write(clean_text(part.text) if output.err.is_terminal else part.text)
        sys.stderr.flush()
    else:
        output.write_text(clean_text(part.text) if output.out.is_terminal else part.text)


async def _run_until_end(session: Session, running: asyncio.Task[RunReply], run_id: str) -> RunReply:
    """Return the reply of a run. Ctrl-C cancels the run; the reply then has its output so far."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        session.output.print_note("interrupted: the run is being ended")
        try:
            await _cancel_run(session, run_id)
            async with asyncio.timeout(_CANCEL_S):
                return await running
        except TimeoutError as error:
            raise StoppedError("the run does not end", "`skillbus runs` shows whether it is still running.") from error
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _cancel_run(session: Session, run_id: str) -> RunCancelled:
    path, params = join_path(RUNS, run_id), session.connection.scope
    return await session.connection.request(RunCancelled, "DELETE", path, params=params)


def print_output(output: CommandOutput, reply: RunReply) -> None:
    """Print what a run printed. A terminal gets the first lines of a long result in JSON."""
    if output.out.is_terminal:
        lines = _end_line(clean_text(reply.stdout)).splitlines(keepends=True)
        shown = len(lines) if reply.result is None else _RESULT_LINES
        output.write_text("".join(lines[:shown]))
        if len(lines) > shown:
            output.print_note(f"… {len(lines) - shown} more lines of JSON: --json or a pipe shows all")
    else:
        output.write_text(reply.stdout)
    sys.stderr.write(_end_line(clean_text(reply.stderr) if output.err.is_terminal else reply.stderr))


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _print_status(output: CommandOutput, reply: RunReply) -> None:
    cut = ", output cut at its limit" if reply.truncated else ""
    output.print_note(f"{reply.status.value} in {reply.duration_ms:.0f} ms, isolation: {reply.isolation}{cut}")
    if reply.status is RunStatus.OK:
        if reply.detail:
            output.print_note(reply.detail)
        return
    code = "" if reply.exit_code is None else f" with exit code {reply.exit_code}"
    cause = f": {reply.detail}" if reply.detail else ""
    advice = "Its own messages are above." if reply.stderr or reply.stdout else ""
    output.print_error(RunFailedError(f"{reply.status.value}{code}{cause} (run {reply.run_id})", advice))
