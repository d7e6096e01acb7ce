"""`skillbus mcp`."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.client.http_api import MCP_S, MCP_SERVERS, join_path
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.options import build_request
from skillbus.cli.output import clean_line
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.contracts.agent.mcp_servers import (
    McpServer,
    McpServerRemoved,
    McpServersListed,
    McpServerState,
    RegisterMcpServer,
)

Name = Annotated[str, typer.Argument(help="Name of the MCP server in skillbus.")]
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
) -> None:
    """Register an MCP server by --url, or by the command after --. A server with this name is replaced.

    Its tools are listed at once, and followed from then on. Exits with 1 if the server does not answer; it stays
    registered and is tried again.
    """
    command, *args = session.trailing_words or ("",)
    if bool(server_url) == bool(command):
        raise typer.BadParameter("give either --url or a command after --", param_hint="--url")
    fields: dict[str, object] = {"name": name, "url": server_url, "command": command or None, "args": args or None}
    fields |= {"headers": _parse_pairs(headers, "--header"), "env": _parse_pairs(env, "--env"), "timeout_s": timeout}
    request = build_request(RegisterMcpServer, fields)
    body = request.model_dump(mode="json", exclude_unset=True) | session.connection.scope
    _print_server(session, await session.connection.request(McpServer, "POST", MCP_SERVERS, json=body, wait_s=MCP_S))


@remote_command("skillbus mcp list")
async def list_servers(session: Session) -> None:
    """List the MCP servers and their state."""
    params = session.connection.scope
    listed = await session.connection.request(McpServersListed, "GET", MCP_SERVERS, params=params)
    session.output.show_result(listed, lambda: _render_servers(listed.servers))


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


@remote_command("skillbus mcp remove files --yes")
async def remove_server(session: Session, name: Name, yes: YesOption = False) -> None:
    """Remove an MCP server, and its tools from the catalogue."""
    if not yes:
        session.confirm_removal([name])
    path, params = join_path(MCP_SERVERS, name), session.connection.scope
    removed = await session.connection.request(McpServerRemoved, "DELETE", path, params=params)
    session.output.show_result(removed, lambda: clean_line(f"{removed.name}: removed with {removed.tools} tools"))


def _print_server(session: Session, server: McpServer) -> None:
    session.output.show_result(server, lambda: _render_servers((server,)))
    if server.quarantined:
        session.output.print_note("`skillbus tools list --state quarantined` shows the tools to accept.", "yellow")
    if server.state is McpServerState.FAILED:
        raise typer.Exit(EXIT_FAILED)


def _render_servers(servers: Sequence[McpServer]) -> RenderableType:
    if not servers:
        return Text("No MCP server is registered. `skillbus mcp add NAME --url URL` adds one.")
    rows = []
    for it in servers:
        messages = filter(None, (it.problem, *(finding.message for finding in it.findings)))
        rows.append((it.name, it.state.value, str(it.tools), str(it.quarantined), it.address, "; ".join(messages)))
    headings = ("name", "state", "tools", "quarantined", "address", "problem")
    return tables.build_table(headings, rows, numbers=("tools", "quarantined"))


def _parse_pairs(words: list[str] | None, option: str) -> dict[str, str] | None:
    """Parse NAME=REF. The error does not show the value: it may be a key."""
    pairs = [word.partition("=") for word in words or ()]
    if not all(name and equals for name, equals, _ in pairs):
        raise typer.BadParameter("give NAME=REF, like Authorization=env:MY_TOKEN", param_hint=option)
    return {name.strip(): value for name, _, value in pairs} or None
