"""`skillbus call`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

import typer
from pydantic import JsonValue

from skillbus.cli.client.http_api import MCP_S, TOOLS
from skillbus.cli.completion import complete_tool
from skillbus.cli.errors import EXIT_FAILED, ToolFailedError
from skillbus.cli.input_files import encode_files
from skillbus.cli.options import DEFAULT_OUT, parse_args
from skillbus.cli.output import clean_text
from skillbus.cli.runs.artifacts import LinkedFile, SavedArtifacts, save_artifacts
from skillbus.cli.runs.runner import follow_output, wait_until_end
from skillbus.cli.session import Session, remote_command
from skillbus.cli.tools.commands import get_tool
from skillbus.client.call import join_path
from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.sandbox.program_runs import RUN_CODE

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of the tool, as `skillbus search` shows it.", autocompletion=complete_tool),
]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Arguments by name.", show_default=False)
]
Args = Annotated[
    str | None, typer.Option("--args", "--arguments", metavar="JSON", help="Arguments by name, as a JSON object.")
]
Action = Annotated[str | None, typer.Option("--action", help="Action of a skill. Default: its default action.")]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", exists=True, dir_okay=False, help="Input file of a skill. Repeatable."),
]
Out = Annotated[Path, typer.Option("--out", file_okay=False, help="Folder for the files and images of the result.")]
Stream = Annotated[bool, typer.Option("--stream", help="Print the output of a skill or a program as it arrives.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, max=3600, help="Seconds that it may take.")]

_SKILL_PREFIX: Final = "skill:"
_TEXT: Final = "string"


@remote_command("skillbus call builtin:calculate expression='15% * 80'")
async def call_tool(  # noqa: PLR0913, PLR0917 (one parameter for each option)
    session: Session,
    tool: Id,
    words: Words = None,
    args: Args = None,
    action: Action = None,
    files: Files = None,
    out: Out = DEFAULT_OUT,
    timeout: Timeout = None,  # noqa: ASYNC109 (the tool's timeout, not this function's)
    stream: Stream = False,
) -> None:
    """Call a tool of any type: a builtin tool, a tool of an MCP server, or a skill. External tools cannot be called.

    Arguments are KEY=VALUE, in the type that the tool's schema names, or --args JSON. Files and images of the result go
    to --out, under free names. Exits with 1 if the tool reports an error. Ctrl-C ends the call.
    """
    if stream and session.output.as_json:
        raise typer.BadParameter("--json prints one document when the call is over", param_hint="--stream")
    if args is not None and words:
        raise typer.BadParameter("give --args or KEY=VALUE, not both", param_hint="--args")
    arguments = parse_args(args) if args is not None else await _parse_words(session, tool, words or (), action)
    run_id = uuid4().hex
    fields: dict[str, object] = {
        "arguments": arguments,
        "action": action,
        "files": encode_files(files) if files else None,
        "timeout_s": timeout,
        "run_id": run_id,
    }
    body = {field: value for field, value in fields.items() if value is not None}
    path = join_path(TOOLS, tool, "call")
    calling = (
        follow_output(session, ToolCalled, path, body)
        if stream
        else session.connection.request(
            ToolCalled, "POST", path, params=session.connection.scope, json=body, wait_s=max(MCP_S, (timeout or 0) + 30)
        )
    )
    is_run = tool.startswith(_SKILL_PREFIX) or tool == RUN_CODE
    if is_run:
        called = await wait_until_end(session, asyncio.create_task(calling), run_id)
    else:
        called = await calling
    await _show_result(session, called, out, streamed=stream and is_run)


async def _show_result(session: Session, called: ToolCalled, out: Path, *, streamed: bool) -> None:
    async def fetch_file(file: LinkedFile) -> bytes:
        return await session.connection.fetch_url(file.path)

    saved = await save_artifacts(session.output, out, _list_files(called), fetch_file)
    if session.output.as_json:
        errors = [error.document() for error in saved.errors]
        session.output.show_result(called.model_dump(mode="json") | {"saved": saved.paths, "errors": errors}, str)
    elif streamed and called.id == RUN_CODE and called.structured is not None:
        session.output.write_text(f"{json.dumps(called.structured, ensure_ascii=False)}\n")
    elif not streamed and not called.is_error:
        session.output.write_text(_end_line(clean_text(called.text) if session.output.out.is_terminal else called.text))
    if not session.output.as_json:
        _print_note(session, called, saved)
    if called.is_error:
        session.fail(ToolFailedError(_get_reason(called) if streamed else called.text))
    if saved.errors:
        raise typer.Exit(EXIT_FAILED)


def _print_note(session: Session, called: ToolCalled, saved: SavedArtifacts) -> None:
    cut = ", cut at its size limit" if called.truncated else ""
    session.output.print_note(f"{called.id} in {called.duration_ms:.0f} ms{cut}")
    for error in saved.errors:
        session.output.print_error(error)


def _get_reason(called: ToolCalled) -> str:
    """Return the first line of the last text: the output before it was printed already."""
    texts = [str(part["text"]) for part in called.content if isinstance(part, dict) and part.get("type") == "text"]
    return texts[-1].partition("\n")[0] if texts else ""


def _list_files(called: ToolCalled) -> list[LinkedFile]:
    links = (part for part in called.content if isinstance(part, dict) and part.get("type") == "resource_link")
    # Links to other places are the tool's own; they are shown by --json.
    return [LinkedFile(str(link.get("name")), uri) for link in links if (uri := str(link.get("uri"))).startswith("/")]


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


async def _parse_words(session: Session, tool: str, words: Sequence[str], action: str | None) -> dict[str, JsonValue]:
    """Return the arguments of KEY=VALUE words. Without a schema, a value that is JSON is taken as JSON."""
    if not words:
        return {}
    pairs = dict[str, str]()
    for word in words:
        key, sign, value = word.partition("=")
        if not key or not sign or key in pairs:
            raise typer.BadParameter(f"{word!r} is not KEY=VALUE with a new key", param_hint="KEY=VALUE")
        pairs[key] = value
    properties: JsonValue = None
    if action is None:
        properties = ((await get_tool(session, tool)).tool.parameters or {}).get("properties")
    schemas = properties if isinstance(properties, dict) else {}
    return {key: _convert_value(value, schemas.get(key)) for key, value in pairs.items()}


def _convert_value(text: str, schema: JsonValue) -> JsonValue:
    wanted = schema.get("type") if isinstance(schema, Mapping) else None
    if wanted == _TEXT:
        return text
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    takes_text = isinstance(wanted, list) and _TEXT in wanted
    return text if takes_text and value is not None else value
