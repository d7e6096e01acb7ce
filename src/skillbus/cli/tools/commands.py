"""`skillbus search` and `skillbus tools`."""

from typing import Annotated, Final

import typer

from skillbus.cli.client.http_api import TOOLS
from skillbus.cli.completion import complete_tool
from skillbus.cli.options import ThresholdOption
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tools.view import format_state, render_hits, render_tool, render_tools
from skillbus.client.call import join_path
from skillbus.contracts.indexer.tools import CatalogueTool, ToolsListed, ToolsRemoved, ToolState, ToolType
from skillbus.contracts.retriever.tool_search import ToolsFound

Query = Annotated[str, typer.Argument(help="What you need, in any language.")]
HitLimit = Annotated[int, typer.Option("--limit", min=1, max=100, help="Largest number of hits.")]
Types = Annotated[list[ToolType] | None, typer.Option("--type", help="Only tools of this type. Repeatable.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tools with one of these tags. Repeatable.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only tools of this source. Repeatable.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each tool was found, and the stages of the search.")]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the tool, as `skillbus tools list` shows it.", autocompletion=complete_tool
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Tools to remove.", show_default=False, autocompletion=complete_tool),
]
States = Annotated[list[ToolState] | None, typer.Option("--state", help="Only tools in this state. Repeatable.")]
Source = Annotated[str | None, typer.Option("--source", help="Only tools of this source.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only tools with this text in name or description.")]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of tools.")]
Digest = Annotated[
    str | None, typer.Option("--digest", help="Digest of the content to accept. Without it, the tool is shown first.")
]
Off = Annotated[bool, typer.Option("--off", help="Let agents call it without an approval.")]

_PAGE_SIZE: Final = 1000


@remote_command("skillbus search 'commit my changes' --limit 3", aliases={"--top-k": "--limit"})
async def search_tools(
    session: Session,
    query: Query,
    limit: HitLimit = 5,
    threshold: ThresholdOption = None,
    types: Types = None,
    tags: Tags = None,
    sources: Sources = None,
    explain: Explain = False,
) -> None:
    """Find the tools that fit a request."""
    body: dict[str, object] = {"query": query, "limit": limit, **session.connection.scope}
    filters = {"tool_types": types, "tags": tags, "sources": sources}
    body |= {name: values for name, values in filters.items() if values}
    body |= {"threshold": threshold} if threshold is not None else {}
    body |= {"explain": True} if explain else {}
    found = await session.connection.request(ToolsFound, "POST", f"{TOOLS}/search", json=body)
    # In a pipe each hit is one line.
    separator = "\n" if session.output.out.is_terminal else "; "
    session.output.show_result(found, lambda: render_hits(found, explain=explain, separator=separator))


@remote_command("skillbus tools list --type mcp --state quarantined")
async def list_tools(
    session: Session,
    types: Types = None,
    states: States = None,
    source: Source = None,
    tag: Tag = None,
    text: TextIn = None,
    limit: Limit = 100,
) -> None:
    """List the tools of the catalogue by id."""
    single = {"source": source, "tag": tag, "text": text}
    filters: dict[str, str | list[str]] = {name: value for name, value in single.items() if value is not None}
    filters |= {"tool_types": list(map(str, types))} if types else {}
    filters |= {"states": list(map(str, states))} if states else {}
    found, page = await session.connection.list_rows(
        ToolsListed, TOOLS, filters, lambda page: (page.tools, page.next), page_size=_PAGE_SIZE, limit=limit
    )
    document = {"tools": [tool.model_dump(mode="json") for tool in found], "total": page.total}
    session.output.show_result(document, lambda: render_tools(found, page.total))


@remote_command("skillbus tools show mcp:files/read_file")
async def show_tool(session: Session, tool: Id) -> None:
    """Show a tool with its findings and pending changes."""
    found = await get_tool(session, tool)
    session.output.show_result(found, lambda: render_tool(found))


@remote_command("skillbus tools remove --source crm --yes")
async def remove_tools(session: Session, tools: Ids = None, source: Source = None, yes: YesOption = False) -> None:
    """Remove tools from the catalogue: the named ones, or all tools of a --source."""
    if bool(tools) == bool(source):
        raise typer.BadParameter("give ids or --source", param_hint="ID")
    wanted = list(dict.fromkeys(tools or ()))
    if not yes:
        session.confirm_removal(wanted or [f"all tools of {source}"])
    if source:
        params = {"source": source} | session.connection.scope
        removed = await session.connection.request(ToolsRemoved, "DELETE", TOOLS, params=params)
        session.output.show_result(
            removed, lambda: f"{format_number(len(removed.ids), 'tool')} of {clean_line(source)}: removed"
        )
        return

    async def remove_tool(tool_id: str) -> None:
        await session.connection.send("DELETE", join_path(TOOLS, tool_id), params=session.connection.scope)

    await session.apply_each(wanted, remove_tool, "id")


@remote_command("skillbus tools accept mcp:files/read_file")
async def accept_tool(session: Session, tool: Id, digest: Digest = None, yes: YesOption = False) -> None:
    """Accept a quarantined tool.

    Without --digest, the tool and its changes are shown and a confirmation is asked for.
    """
    if digest is None:
        found = await get_tool(session, tool)
        digest = found.pending_digest or found.digest
        session.output.print_text(render_tool(found))
        if not yes:
            session.confirm("Accept it?", "--yes or --digest")
    await _change_state(session, tool, "accept", {"digest": digest})


@remote_command("skillbus tools enable crm:find-customer")
async def enable_tool(session: Session, tool: Id) -> None:
    """Enable a disabled tool."""
    await _change_state(session, tool, "enable")


@remote_command("skillbus tools disable crm:find-customer")
async def disable_tool(session: Session, tool: Id) -> None:
    """Disable a tool: it is neither found nor called."""
    await _change_state(session, tool, "disable")


@remote_command("skillbus tools require-approval mcp:files/delete_all")
async def require_approval(session: Session, tool: Id, off: Off = False) -> None:
    """Let agents call a tool or a skill only when a person approves the call.

    With --off they call it without, also if its MCP server states `destructiveHint`.
    """
    await _change_state(session, tool, "approval", {"required": not off})


async def get_tool(session: Session, tool: str) -> CatalogueTool:
    """Return a tool of the catalogue."""
    params = session.connection.scope
    return await session.connection.request(CatalogueTool, "GET", join_path(TOOLS, tool), params=params)


async def _change_state(session: Session, tool: str, step: str, body: dict[str, object] | None = None) -> None:
    path, params = join_path(TOOLS, tool, step), session.connection.scope
    changed = await session.connection.request(CatalogueTool, "POST", path, params=params, json=body)
    session.output.show_result(changed, lambda: format_state(changed))
