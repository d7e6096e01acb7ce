"""`skillbus mcp import`: takes over the MCP servers of a desktop client."""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from pydantic import JsonValue
from rich.console import RenderableType

from skillbus.agent.domain.servers.operator_file import (
    SERVERS_MEMBER,
    OperatorFileError,
    build_record,
    parse_entries,
    parse_server,
)
from skillbus.cli import tables
from skillbus.cli.client.http_api import MCP_SERVERS
from skillbus.cli.errors import EXIT_FAILED, LocalFileError, UnreachableError
from skillbus.cli.input_files import read_input
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tools.mcp_commands import refresh_servers, render_servers
from skillbus.cli.tools.mcp_file import FileOption, find_mcp_file, put_entries, read_entries
from skillbus.contracts.agent.mcp_servers import McpServersListed, McpServerState

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="claude_desktop_config.json, .mcp.json, VS Code's mcp.json or a file like them; - is stdin.",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace servers that exist already.")]

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_VS_CODE_MEMBER: Final = "servers"
_VALUES: Final = ("env", "headers")
"""Members whose values can be references to variables."""
_USED: Final = frozenset(
    {"type", "command", "args", "url", *_VALUES, "project", "timeout_s", "start_timeout_s", "disabled"}
)


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """Entry of the imported file, with its outcome."""

    name: str
    entry: dict[str, JsonValue]
    address: str = ""
    refused: str = ""
    """Reason why it cannot be taken over."""
    exists: bool = False
    """True if a server of this name exists and is kept."""

    @property
    def is_disabled(self) -> bool:
        """True if the file says that the server is not to be started."""
        return self.entry.get("disabled") is True

    def describe(self) -> str:
        """Return the outcome."""
        if self.refused:
            return f"not taken over: {self.refused}"
        if self.exists:
            return "skipped: it exists, --replace replaces it"
        unused = ", ".join(sorted(self.entry.keys() - _USED))
        added = "to add, disabled" if self.is_disabled else "to add"
        return f"{added}; skillbus does not use {unused}" if unused else added


@remote_command("skillbus mcp import ~/.config/Claude/claude_desktop_config.json", url_option="--server")
async def import_servers(
    session: Session,
    source: Source,
    replace: Replace = False,
    yes: YesOption = False,
    file: FileOption = None,
) -> None:
    """Add the MCP servers of a desktop client to the operator's file mcp.json, and start them.

    Lists what it adds, and asks. Exits with 1 if a server cannot be taken over or does not answer.
    """
    path = find_mcp_file(session, file)
    known = set() if replace else set(read_entries(path)) | await _list_registered(session)
    servers = plan_import(read_input(source), source, known, session.connection.project)
    session.output.print_text(_render_plan(servers))
    wanted = {server.name: server.entry for server in servers if not server.refused and not server.exists}
    if wanted:
        if not yes:
            session.confirm(f"Add {format_number(len(wanted), 'server')} to {path}, and start their commands as you?")
        put_entries(path, wanted)
    enabled = tuple(server.name for server in servers if server.name in wanted and not server.is_disabled)
    started = await refresh_servers(session, enabled, path)
    plan = [{"name": it.name, "address": it.address, "outcome": it.describe()} for it in servers]
    document: dict[str, object] = {"plan": plan, "servers": [server.model_dump(mode="json") for server in started]}
    session.output.show_result(document, lambda: render_servers(started) if started else "")
    if any(server.refused for server in servers) or any(it.state is McpServerState.FAILED for it in started):
        raise typer.Exit(EXIT_FAILED)


def plan_import(content: bytes, source: str, known: set[str], project: str | None) -> list[ImportedServer]:
    """Return the outcome of each entry of a file, in its order. `known` are the names to keep.

    Raises:
        LocalFileError: The file is not one of a desktop client.
    """
    try:
        entries = parse_entries(content) or parse_entries(content, _VS_CODE_MEMBER)
    except OperatorFileError as error:
        raise LocalFileError(f"{source}: {error}") from error
    if not entries:
        raise LocalFileError(f'{source} has no servers: "{SERVERS_MEMBER}" is absent or empty')
    planned: list[ImportedServer] = []
    for given, entry in entries.items():
        name = re.sub(r"[^a-z0-9_-]+", "-", given.lower()).strip("-_")[:64].strip("-_")
        planned.append(_plan_server(name or given, entry, project, known | {server.name for server in planned}))
    return planned


def _plan_server(name: str, entry: JsonValue, project: str | None, known: set[str]) -> ImportedServer:
    try:
        converted = convert_entry(entry)
        if project is not None:
            converted["project"] = project
        address = build_record(parse_server(name, converted)).address
    except OperatorFileError as error:
        return ImportedServer(name, {}, refused=str(error))
    return ImportedServer(name, converted, address, exists=name in known)


def convert_entry(entry: JsonValue) -> dict[str, JsonValue]:
    """Return an entry in the form of skillbus.

    `${NAME}` or `${env:NAME}` as the whole value becomes the reference `env:NAME`. Numbers become texts.

    Raises:
        OperatorFileError: skillbus cannot do what the entry says.
    """
    if not isinstance(entry, dict):
        raise OperatorFileError("it is not an object")
    if entry.get("type") == "sse":
        raise OperatorFileError("it speaks SSE, which skillbus does not: give its address for Streamable HTTP")
    converted = dict(entry)
    for member in _VALUES:
        values = entry.get(member)
        if isinstance(values, dict):
            converted[member] = {key: _convert_value(value) for key, value in values.items()}
    for member in ("command", "args", "url", *_VALUES):
        if "${" in json.dumps(converted.get(member)):
            remedy = ", or put the whole of it into one variable" if member in _VALUES else ""
            raise OperatorFileError(f"`{member}` has a ${{VARIABLE}} inside a value: write the value{remedy}")
    return converted


def _convert_value(value: JsonValue) -> JsonValue:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else f"env:{match[1]}"


async def _list_registered(session: Session) -> set[str]:
    try:
        params = session.connection.scope
        listed = await session.connection.request(McpServersListed, "GET", MCP_SERVERS, params=params)
    except UnreachableError:
        return set()  # it does not run; its registered servers cannot be known
    return {server.name for server in listed.servers}


def _render_plan(servers: list[ImportedServer]) -> RenderableType:
    rows = [(server.name, server.address, server.describe()) for server in servers]
    return tables.build_table(("name", "address", "outcome"), rows)
