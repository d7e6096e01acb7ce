"""`skillbus search` and `skillbus tools`."""

import json
from typing import Annotated

import typer
from pydantic import JsonValue

from skillbus.cli.client.tools import ToolsClient
from skillbus.cli.errors import ToolFailedError
from skillbus.cli.options import ThresholdOption
from skillbus.cli.output import clean_line, clean_text
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.tools.view import format_state, render_hits, render_tool, render_tools
from skillbus.contracts.indexer.tools import ToolState, ToolType

Query = Annotated[str, typer.Argument(help="What you need, in any language.")]
HitLimit = Annotated[int, typer.Option("--limit", min=1, max=100, help="Largest number of hits.")]
Types = Annotated[list[ToolType] | None, typer.Option("--type", help="Only tools of this type. Repeatable.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tools with one of these tags. Repeatable.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only tools of this source. Repeatable.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each tool was found, and the stages of the search.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the tool, as `skillbus tools list` shows it.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Tools to remove.", show_default=False)]
States = Annotated[list[ToolState] | None, typer.Option("--state", help="Only tools in this state. Repeatable.")]
Source = Annotated[str | None, typer.Option("--source", help="Only tools of this source.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only tools with this text in name or description.")]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of tools.")]
Digest = Annotated[
    str | None, typer.Option("--digest", help="Digest of the content to accept. Without it, the tool is shown first.")
]
Args = Annotated[str, typer.Option("--args", metavar="JSON", help="Arguments by name, as a JSON object.")]

_SKILL_PREFIX = "skill:"


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
    filters = {"tool_types": types or (), "tags": tags or (), "sources": sources or ()}
    found = await ToolsClient(session.connection).search_tools(
        query, limit=limit, threshold=threshold, filters=filters, explain=explain
    )
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
    found, total = await ToolsClient(session.connection).list_tools(filters, limit)
    document = {"tools": [tool.model_dump(mode="json") for tool in found], "total": total}
    session.output.show_result(document, lambda: render_tools(found, total))


@remote_command("skillbus tools show mcp:files/read_file")
async def show_tool(session: Session, tool: Id) -> None:
    """Show a tool with its findings and pending changes."""
    found = await ToolsClient(session.connection).get_tool(tool)
    session.output.show_result(found, lambda: render_tool(found))


@remote_command("skillbus tools remove --source crm --yes")
async def remove_tools(session: Session, tools: Ids = None, source: Source = None, yes: YesOption = False) -> None:
    """Remove tools from the catalogue: the named ones, or all tools of a --source."""
    if bool(tools) == bool(source):
        raise typer.BadParameter("give ids or --source", param_hint="ID")
    client = ToolsClient(session.connection)
    wanted = list(dict.fromkeys(tools or ()))
    if not yes:
        session.confirm_removal(wanted or [f"all tools of {source}"])
    if source:
        removed = await client.remove_source(source)
        session.output.show_result(removed, lambda: f"{len(removed.ids)} tools of {clean_line(source)}: removed")
        return
    await session.apply_each(wanted, client.remove_tool, "id")


@remote_command("skillbus tools accept mcp:files/read_file")
async def accept_tool(session: Session, tool: Id, digest: Digest = None, yes: YesOption = False) -> None:
    """Accept a quarantined tool.

    Without --digest, the tool and its changes are shown and a confirmation is asked for.
    """
    client = ToolsClient(session.connection)
    if digest is None:
        found = await client.get_tool(tool)
        digest = found.pending_digest or found.digest
        session.output.print_text(render_tool(found))
        if not yes:
            session.confirm("Accept it?", "--yes or --digest")
    accepted = await client.accept_tool(tool, digest)
    session.output.show_result(accepted, lambda: format_state(accepted))


@remote_command("skillbus tools enable crm:find-customer")
async def enable_tool(session: Session, tool: Id) -> None:
    """Enable a disabled tool."""
    enabled = await ToolsClient(session.connection).enable_tool(tool, enabled=True)
    session.output.show_result(enabled, lambda: format_state(enabled))


@remote_command("skillbus tools disable crm:find-customer")
async def disable_tool(session: Session, tool: Id) -> None:
    """Disable a tool: it is neither found nor called."""
    disabled = await ToolsClient(session.connection).enable_tool(tool, enabled=False)
    session.output.show_result(disabled, lambda: format_state(disabled))


@remote_command("""skillbus tools call mcp:files/read_file --args '{"path": "/tmp/a.txt"}'""")
async def call_tool(session: Session, tool: Id, args: Args = "{}") -> None:
    """Call an MCP tool or a builtin tool. An external tool cannot be called.

    Exits with 1 if the tool reports an error.
    """
    if tool.startswith(_SKILL_PREFIX):
        name = tool.removeprefix(_SKILL_PREFIX)
        raise typer.BadParameter(f"a skill is run with `skillbus run {name}`", param_hint="ID")
    called = await ToolsClient(session.connection).call_tool(tool, parse_args(args))
    if session.output.as_json:
        session.output.show_result(called, str)
    if called.is_error:
        session.fail(ToolFailedError(called.text))
    if not session.output.as_json:
        session.output.write_text(f"{clean_text(called.text) if session.output.out.is_terminal else called.text}\n")
        cut = ", cut at its size limit" if called.truncated else ""
        session.output.print_note(f"{called.id} in {called.took_ms:.0f} ms{cut}")


def parse_args(text: str) -> dict[str, JsonValue]:
    """Parse the value of --args.

    Raises:
        typer.BadParameter: It is not a JSON object.
    """
    try:
        value = json.loads(text)
        # Python accepts more than JSON: NaN, infinite numbers and lone surrogates.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--args") from error
    if not isinstance(value, dict):
        raise typer.BadParameter('not a JSON object like {"name": "value"}', param_hint="--args")
    return value
