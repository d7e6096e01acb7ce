"""`skillbus tools`."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from skillbus.cli.errors import ToolFailedError
from skillbus.cli.removal import confirm_removal, remove_each
from skillbus.cli.runs.run import parsed_args
from skillbus.cli.session import Session
from skillbus.cli.text import plain, plain_line
from skillbus.cli.tools import view as tool_tables
from skillbus.cli.tools.search import Kind

if TYPE_CHECKING:
    from skillbus.contracts.indexer.tools import CatalogueTool


class State(StrEnum):
    """As `skillbus.contracts.tools.ToolState`, which is slow to import; a test compares the two."""

    ACTIVE = "active"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"


Id = Annotated[str, typer.Argument(metavar="ID", help="The tool's id, as `skillbus tools list` shows it.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Tools to remove.", show_default=False)]
Types = Annotated[list[Kind] | None, typer.Option("--type", help="Only this; repeatable.")]
States = Annotated[list[State] | None, typer.Option("--state", help="Only this; repeatable.")]
Source = Annotated[str | None, typer.Option("--source", help="Only tools that this one described.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only tools that have it.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only tools with this in their name or description.")]
Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]
Digest = Annotated[str | None, typer.Option("--digest", help="What was looked at; it is shown and asked if absent.")]
Args = Annotated[str, typer.Option("--args", metavar="JSON", help="Arguments by name, as a JSON object.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_SKILL = "skill:"


async def list_tools(
    session: Session,
    types: Types = None,
    states: States = None,
    source: Source = None,
    tag: Tag = None,
    text: TextIn = None,
    limit: Limit = 100,
) -> None:
    """List the catalogue by id, whatever the kind of tool."""
    single = {"source": source, "tag": tag, "text": text}
    only: dict[str, str | list[str]] = {name: value for name, value in single.items() if value is not None}
    only |= {"tool_types": [kind.value for kind in types]} if types else {}
    only |= {"states": [state.value for state in states]} if states else {}
    found, total = await session.tools.tools(only, limit)
    document = {"tools": [tool.model_dump(mode="json") for tool in found], "total": total}
    session.output.show(document, lambda: tool_tables.tools(found, total))


async def show(session: Session, tool: Id) -> None:
    """Show a tool: how it is described, what was found in it, and what it would become if it is quarantined."""
    found = await session.tools.tool(tool)
    session.output.show(found, lambda: tool_tables.tool(found))


async def remove(session: Session, tools: Ids = None, source: Source = None, yes: Yes = False) -> None:
    """Take tools out of the catalogue: those that are named, or all of a --source."""
    if bool(tools) == bool(source):
        raise typer.BadParameter("name tools, or give --source", param_hint="ID")
    wanted = list(dict.fromkeys(tools or ()))
    if not yes:
        confirm_removal(wanted or [f"all tools of {plain_line(source or '')}"], as_json=session.output.as_json)
    if source:
        removed = await session.tools.remove_source(source)
        session.output.show(removed, lambda: f"{len(removed.ids)} tools of {plain_line(source)}: removed")
        return
    await remove_each(session, wanted, session.tools.remove_tool, "id")


async def accept(session: Session, tool: Id, digest: Digest = None, yes: Yes = False) -> None:
    """Accept a quarantined tool: what it became is shown and asked, unless --digest names what was looked at."""
    if digest is None:
        found = await session.tools.tool(tool)
        digest = found.pending_digest or found.digest
        session.output.say(tool_tables.tool(found))
        if not yes:
            _confirm(session)
    accepted = await session.tools.accept(tool, digest)
    session.output.show(accepted, lambda: _state(accepted))


async def enable(session: Session, tool: Id) -> None:
    """Have a disabled tool found and called again."""
    now = await session.tools.set_state(tool, enabled=True)
    session.output.show(now, lambda: _state(now))


async def disable(session: Session, tool: Id) -> None:
    """Have a tool neither found nor called."""
    now = await session.tools.set_state(tool, enabled=False)
    session.output.show(now, lambda: _state(now))


async def call(session: Session, tool: Id, args: Args = "{}") -> None:
    """Call an MCP or a builtin tool. Exits with 1 when it says that it failed. An external tool cannot be called."""
    if tool.startswith(_SKILL):
        raise typer.BadParameter(f"a skill is run: skillbus run {tool.removeprefix(_SKILL)}", param_hint="ID")
    called = await session.tools.call(tool, parsed_args(args))
    if session.output.as_json:
        session.output.show(called, str)
    elif called.is_error:
        session.output.fail(ToolFailedError(called.text))
    else:
        session.output.write(f"{plain(called.text) if session.output.out.is_terminal else called.text}\n")
        cut = ", what is large left out" if called.truncated else ""
        session.output.note(f"{called.id} in {called.took_ms:.0f} ms{cut}")
    if called.is_error:
        raise typer.Exit(ToolFailedError.exit_code)


def _confirm(session: Session) -> None:
    if session.output.as_json or not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask: say --yes, or --digest", param_hint="--yes")
    typer.confirm("Accept it?", abort=True, err=True)


def _state(tool: "CatalogueTool") -> str:
    return plain_line(f"{tool.tool.id}: {tool.state.value}")
