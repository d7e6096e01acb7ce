"""`skillbus mcp`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from skillbus.agent.domain.errors import LAST_WORDS_SEPARATOR
from skillbus.agent.domain.servers.operator_file import MCP_FILE, CommandServer
from skillbus.cli import tables
from skillbus.cli.client.http_api import MCP_S, MCP_SERVERS
from skillbus.cli.completion import complete_mcp_server
from skillbus.cli.errors import EXIT_FAILED, LocalFileError, ProblemError, UnreachableError
from skillbus.cli.options import build_request
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tools.mcp_file import FileOption, find_mcp_file, put_entries, read_entries, remove_entry
from skillbus.client.call import join_path
from skillbus.contracts.agent.mcp_servers import (
    McpServer,
    McpServerRemoved,
    McpServersListed,
    McpServerSource,
    McpServerState,
    RegisterMcpServer,
)
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT

Name = Annotated[str, typer.Argument(help="Name of the MCP server in skillbus.", autocompletion=complete_mcp_server)]
Url = Annotated[str | None, typer.Option("--url", help="Address of a running server, like https://mcp.example.com/mcp")]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME=REF", help="Header to send; REF is env:NAME or file:PATH of the agent. Repeatable."
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME=REF",
        help="Variable of the command; REF is env:NAME or file:PATH of the agent. Repeatable.",
    ),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds that the server has for a reply.")]
_SLOW_START_S: Final = 3.0
_LOOK_EVERY_S: Final = 1.0
_SLOW_NOTE: Final = "{} is starting. A first start may download a package, which can take minutes."


@remote_command(
    "skillbus mcp add files -- npx -y @modelcontextprotocol/server-filesystem /tmp",
    url_option="--server",
    trailing_words="COMMAND [ARGS...]",
)
async def add_server(
    session: Session,
    name: Name,
    server_url: Url = None,
    headers: Headers = None,
    env: Env = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (the server's timeout, not this function's)
    file: FileOption = None,
) -> None:
    """Add an MCP server by --url, or by the command after --. A server with this name is replaced.

    A command is written to the operator's file, mcp.json in the data directory, by the user who runs skillbus, who also
    starts it. A URL is registered by a request. The tools are listed at once, and followed from then on. Exits with 1
    if the server does not answer; it stays and is tried again.
    """
    command, *args = session.trailing_words or ("",)
    if bool(server_url) == bool(command):
        raise typer.BadParameter("give either --url or a command after --", param_hint="--url")
    if (headers and command) or (env and not command):
        raise typer.BadParameter("--header goes with --url, --env with a command", param_hint="--header")
    header_values, env_values = _parse_pairs(headers, "--header"), _parse_pairs(env, "--env")
    if not command:
        fields = {"name": name, "url": server_url, "headers": header_values, "timeout_s": timeout}
        body = build_request(RegisterMcpServer, fields).model_dump(mode="json", exclude_unset=True)
        body |= session.connection.scope
        server = await session.connection.request(McpServer, "POST", MCP_SERVERS, json=body, wait_s=MCP_S)
        _print_server(session, server)
        return
    started: dict[str, object] = {"command": command, "args": args, "env": env_values, "timeout_s": timeout}
    started |= {"name": name, "project": session.connection.project}
    entry = build_request(CommandServer, started).model_dump(mode="json", exclude_unset=True, exclude={"name"})
    path = find_mcp_file(session, file)
    put_entries(path, {name: entry})
    if followed := await refresh_servers(session, [name], path):
        _print_server(session, followed[0])
    else:
        added: dict[str, object] = {"name": name, "file": str(path), "state": "skillbus is not running"}
        session.output.show_result(added, lambda: clean_line(f"{name}: added to {path}"))


@remote_command("skillbus mcp list")
async def list_servers(session: Session) -> None:
    """List the MCP servers, their state, and where each comes from: mcp.json, or a request."""
    params = session.connection.scope
    listed = await session.connection.request(McpServersListed, "GET", MCP_SERVERS, params=params)
    session.output.show_result(listed, lambda: render_servers(listed.servers))
    if listed.file_problem is not None:
        session.output.print_note(f"The operator's file is not used as it is: {listed.file_problem}", "yellow")


@remote_command("skillbus mcp show files")
async def show_server(session: Session, name: Name) -> None:
    """Show an MCP server."""
    path, params = join_path(MCP_SERVERS, name), session.connection.scope
    server = await session.connection.request(McpServer, "GET", path, params=params)
    session.output.show_result(server, lambda: tables.build_document(server.model_dump(mode="json")))


@remote_command("skillbus mcp refresh files")
async def refresh_server(session: Session, name: Name) -> None:
    """List an MCP server's tools again."""
    path, params = join_path(MCP_SERVERS, name, "refresh"), session.connection.scope
    _print_server(session, await session.connection.request(McpServer, "POST", path, params=params, wait_s=MCP_S))


@remote_command("skillbus mcp remove files --yes", url_option="--server")
async def remove_server(session: Session, name: Name, yes: YesOption = False, file: FileOption = None) -> None:
    """Remove an MCP server, and its tools from the catalogue. A server of the operator's file is removed from it."""
    if not yes:
        session.confirm_removal([name])
    path = _find_entry(session, name, file)
    if path is not None:
        remove_entry(path, name)
    removed = McpServerRemoved(name=name, tools=0)
    try:
        params = session.connection.scope
        where = join_path(MCP_SERVERS, name)
        removed = await session.connection.request(McpServerRemoved, "DELETE", where, params=params)
    except UnreachableError:
        if path is None:
            raise
        session.output.print_note(f"No skillbus answers. Its tools are removed at its next start. {path} is changed.")
    except ProblemError as error:
        if path is None or error.problem_code != ErrorCode.NOT_FOUND:
            raise
    session.output.show_result(
        removed, lambda: clean_line(f"{removed.name}: removed with {format_number(removed.tools, 'tool')}")
    )


def _find_entry(session: Session, name: str, file: Path | None) -> Path | None:
    """Return the operator's file if it has an entry of this name in the session's project."""
    try:
        path = find_mcp_file(session, file)
    except LocalFileError:
        return None  # the server runs elsewhere; if the name is in its file, it says so
    entry = read_entries(path).get(name)
    if not isinstance(entry, dict):
        return None
    project = entry.get("project", DEFAULT_PROJECT)
    return path if project == (session.connection.project or DEFAULT_PROJECT) else None


async def refresh_servers(session: Session, names: Sequence[str], path: Path) -> list[McpServer]:
    """Let the server read the operator's file, and return the servers of these names; none if it does not run.

    Raises:
        LocalFileError: The server does not follow this file.
    """
    servers: list[McpServer] = []
    for name in names:
        try:
            server = await _await_start(session, name)
        except UnreachableError:
            session.output.print_note(f"No skillbus answers. It follows {path} when it starts.")
            return []
        except ProblemError as error:
            if error.problem_code != ErrorCode.NOT_FOUND:
                raise
            server = None
        if server is None or server.source is not McpServerSource.FILE:
            raise LocalFileError(
                f"{name} is in {path}, but the skillbus at {session.connection.client.url} does not follow it",
                "Check --data and --server, and that it runs without --no-key."
                " `skillbus status` tells of a refused file.",
            )
        servers.append(server)
    return servers


async def _await_start(session: Session, name: str) -> McpServer | None:
    """Return the server when its start has succeeded or failed, which a note explains if it takes long."""
    where, params = join_path(MCP_SERVERS, name), session.connection.scope
    refresh = session.connection.request(McpServer, "POST", f"{where}/refresh", params=params, wait_s=MCP_S)
    refreshing = asyncio.create_task(refresh)
    try:
        await asyncio.wait({refreshing}, timeout=_SLOW_START_S)
        is_slow = not refreshing.done()
        if is_slow:
            session.output.print_note(_SLOW_NOTE.format(name))
        server = await refreshing
    finally:
        refreshing.cancel()
    while server.state is McpServerState.CONNECTING:  # until the agent gives it up
        if not is_slow:
            session.output.print_note(_SLOW_NOTE.format(name))
        is_slow = True
        await asyncio.sleep(_LOOK_EVERY_S)
        server = await session.connection.request(McpServer, "GET", where, params=params)
    return server


def _print_server(session: Session, server: McpServer) -> None:
    session.output.show_result(server, lambda: render_servers((server,)))
    if server.problem is not None:
        for line in server.problem.split(LAST_WORDS_SEPARATOR):
            session.output.print_note(line, "red")  # whole, which the table has no room for
    if server.quarantined:
        session.output.print_note("`skillbus tools list --state quarantined` shows the tools to accept.", "yellow")
    if server.state is McpServerState.FAILED:
        raise typer.Exit(EXIT_FAILED)


def render_servers(servers: Sequence[McpServer]) -> RenderableType:
    """Render servers with their origin and state."""
    if not servers:
        return Text("There is no MCP server. `skillbus mcp add NAME --url URL`, or NAME -- COMMAND, adds one.")
    rows = []
    for it in servers:
        messages = filter(None, (it.problem, *(finding.message for finding in it.findings)))
        origin = MCP_FILE if it.source is McpServerSource.FILE else it.source.value
        state, counts = it.state.value, (str(it.tools), str(it.quarantined))
        rows.append((it.name, origin, state, *counts, it.address, "; ".join(messages)))
    headings = ("name", "from", "state", "tools", "quarantined", "address", "problem")
    return tables.build_table(headings, rows, numbers=("tools", "quarantined"))


def _parse_pairs(words: list[str] | None, option: str) -> dict[str, str] | None:
    """Parse NAME=REF. The error does not show the value: it may be a key."""
    pairs = [word.partition("=") for word in words or ()]
    if not all(name and equals for name, equals, _ in pairs):
        raise typer.BadParameter("give NAME=REF, like Authorization=env:MY_TOKEN", param_hint=option)
    return {name.strip(): value for name, _, value in pairs} or None
