"""`skillbus mcp`."""

from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from skillbus.cli import tables
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.removal import confirm_removal
from skillbus.cli.runs.run import WithArgv
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line
from skillbus.cli.tools import view as tool_tables

if TYPE_CHECKING:
    from skillbus.contracts.agent.mcp_servers import McpServer

Name = Annotated[str, typer.Argument(help="What it is called here.")]
Url = Annotated[str | None, typer.Option("--url", help="Of a server that is there: https://mcp.example.com/mcp")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=REF", help="Sent along; env:NAME or file:PATH of the agent; repeatable."),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=REF", help="Of the command; env:NAME or file:PATH of the agent; repeatable."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds that it has for an answer.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class WithCommand(WithArgv):
    """The words after `--` are the command of a server."""

    usage: ClassVar[str] = "[-- COMMAND [ARGS...]]"


async def add(
    session: Session,
    name: Name,
    server_url: Url = None,
    headers: Headers = None,
    env: Env = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (the server's, not this function's)
) -> None:
    """Register an MCP server by --url, or by the command after --; one of that name is replaced.

    Its tools are listed at once and followed from then on. Exits with 1 when it does not answer; it is registered all
    the same, and tried again.
    """
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.agent.mcp_servers import RegisterMcpServer  # noqa: PLC0415 (slow)

    command, *args = session.argv or ("",)
    if bool(server_url) == bool(command):
        raise typer.BadParameter("give either --url, or the command after --", param_hint="--url")
    fields: dict[str, object] = {"name": name, "url": server_url, "command": command or None, "args": args or None}
    fields |= {"headers": _pairs(headers, "--header"), "env": _pairs(env, "--env"), "timeout_s": timeout}
    _show(session, await session.tools.register(request_of(RegisterMcpServer, fields)))


async def list_servers(session: Session) -> None:
    """List the MCP servers, and how they are."""
    listed = await session.tools.servers()
    session.output.show(listed, lambda: tool_tables.servers(listed.servers))


async def show(session: Session, name: Name) -> None:
    """Show an MCP server."""
    server = await session.tools.server(name)
    session.output.show(server, lambda: tables.document(server.model_dump(mode="json")))


async def refresh(session: Session, name: Name) -> None:
    """List an MCP server's tools again, now."""
    _show(session, await session.tools.refresh(name))


async def remove(session: Session, name: Name, yes: Yes = False) -> None:
    """Remove an MCP server, and its tools from the catalogue."""
    if not yes:
        confirm_removal([name], as_json=session.output.as_json)
    removed = await session.tools.remove_server(name)
    session.output.show(removed, lambda: plain_line(f"{removed.name}: removed with {removed.tools} tools"))


def _show(session: Session, server: "McpServer") -> None:
    session.output.show(server, lambda: tool_tables.servers((server,)))
    if server.quarantined:
        session.output.note("`skillbus tools list --state quarantined` shows what waits to be accepted.", "yellow")
    if server.state.value == "failed":
        raise typer.Exit(EXIT_FAILED)


def _pairs(words: list[str] | None, option: str) -> dict[str, str] | None:
    """NAME=REF as names and references. What is wrong with one never shows its value."""
    pairs = [word.partition("=") for word in words or ()]
    if not all(name and equals for name, equals, _ in pairs):
        raise typer.BadParameter("is NAME=REF, as Authorization=env:MY_TOKEN", param_hint=option)
    return {name.strip(): value for name, _, value in pairs} or None
