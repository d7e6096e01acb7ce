"""Work of `skillbus run`: start a run, follow or cancel it, and show its output and files."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from skillbus.cli.client.http_api import (
    RUNS,
    SKILLS,
    ReplyT,
    build_strange_reply,
    parse_problem,
    parse_reply,
)
from skillbus.cli.errors import RunFailedError, StoppedError
from skillbus.cli.output import CommandOutput, clean_text
from skillbus.cli.runs.artifacts import fetch_content, save_artifacts
from skillbus.cli.session import Session
from skillbus.client.call import join_path
from skillbus.contracts.http import RunPrinted, RunReply
from skillbus.contracts.sandbox.run_history import OutputStream, RunCancelled
from skillbus.contracts.sandbox.skill_runs import RunStatus

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_RESULT_LINES: Final = 30
"""Lines of a result in JSON that a terminal shows. More would push the names of the saved files off the screen."""
_CANCEL_S: Final = 15.0
"""Seconds that a cancelled run has to return what it printed so far."""
_RUN_S: Final = 90.0
"""Seconds to wait for a run without a timeout: longer than the sandbox's own limit, which gives a proper reply."""
_SILENCE_S: Final = 60.0
"""Longest pause while a run is followed: the server sends a sign of life every 15 s."""


async def run_and_show(
    session: Session,
    name: str,
    run_id: str,
    body: dict[str, object],
    out: Path,
    *,
    timeout_s: float | None,
    stream: bool,
) -> None:
    """Run a skill, save its files in `out`, and show its output. Exits with 1 unless all of it succeeds."""
    path = join_path(SKILLS, name, "run")
    running = (
        follow_output(session, RunReply, path, body)
        if stream
        else request_run(session.connection, name, body, timeout_s)
    )
    reply = await wait_until_end(session, asyncio.create_task(running), run_id)
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


async def request_run(
    connection: "ApiConnection", name: str, body: dict[str, object], timeout_s: float | None = None
) -> RunReply:
    """Run a skill and wait for its end."""
    path, wait_s = join_path(SKILLS, name, "run"), max(_RUN_S, (timeout_s or 0) + 30)
    return await connection.request(RunReply, "POST", path, params=connection.scope, json=body, wait_s=wait_s)


async def follow_output(session: Session, kind: type[ReplyT], path: str, body: dict[str, object]) -> ReplyT:
    """Start a run or a call, print the output of the skill as it arrives, and return the reply at its end."""
    params = {**session.connection.scope, "stream": "true"}
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
                return parse_reply(kind, value, response)
    raise build_strange_reply(response, "it ended without a reply")


def _print_part(output: CommandOutput, part: RunPrinted) -> None:
    if part.stream is OutputStream.STDERR:
        sys.stderr.write(clean_text(part.text) if output.err.is_terminal else part.text)
        sys.stderr.flush()
    else:
        output.write_text(clean_text(part.text) if output.out.is_terminal else part.text)


async def wait_until_end(session: Session, running: asyncio.Task[ReplyT], run_id: str) -> ReplyT:
    """Return the reply of a run. Ctrl-C cancels the run; the reply then has its output so far."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        session.output.print_note("interrupted: the run is being ended")
        try:
            await request_cancel(session, run_id)
            async with asyncio.timeout(_CANCEL_S):
                return await running
        except TimeoutError as error:
            raise StoppedError("the run does not end", "`skillbus runs` shows whether it is still running.") from error
    finally:
        running.cancel()
        await asyncio.wait([running])


async def request_cancel(session: Session, run_id: str) -> RunCancelled:
    """Request the end of a run."""
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
