"""`skillbus commands`: the command library."""

from typing import Annotated

import typer

from skillbus.cli.client.http_api import COMMANDS
from skillbus.cli.completion import complete_command
from skillbus.cli.homes.device_commands import show_removed
from skillbus.cli.homes.options import PAGE_SIZE, Limit, TextIn
from skillbus.cli.homes.view import render_command_hits, render_commands
from skillbus.cli.options import ThresholdOption
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.contracts.indexer.commands import MAX_COMMAND_IDS, CommandsListed, CommandsRemoved
from skillbus.contracts.retriever.command_resolution import CommandsFound

Query = Annotated[str, typer.Argument(help="What a device should do, in any language.")]
HitLimit = Annotated[int, typer.Option("--limit", min=1, max=100, help="Largest number of hits.")]
Capability = Annotated[str | None, typer.Option("--capability", help="Only commands of this capability.")]
Capabilities = Annotated[
    list[str] | None, typer.Option("--capability", help="Only commands of this capability. Repeatable.")
]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Commands to remove.", autocompletion=complete_command)]


@remote_command("skillbus commands list --capability switch")
async def list_commands(
    session: Session, capability: Capability = None, text: TextIn = None, limit: Limit = 100
) -> None:
    """List the commands of the library by id."""
    filters = {name: value for name, value in {"capability": capability, "text": text}.items() if value is not None}
    found, page = await session.connection.list_rows(
        CommandsListed, COMMANDS, filters, lambda page: (page.commands, page.next), page_size=PAGE_SIZE, limit=limit
    )
    document = {"commands": [command.model_dump(mode="json") for command in found], "total": page.total}
    session.output.show_result(document, lambda: render_commands(found, page.total))


@remote_command("skillbus commands search '再亮一点' --limit 3", aliases={"--top-k": "--limit"})
async def search_commands(
    session: Session,
    query: Query,
    capabilities: Capabilities = None,
    limit: HitLimit = 5,
    threshold: ThresholdOption = None,
) -> None:
    """Find the commands of the library that fit a query."""
    body: dict[str, object] = {"query": query, "limit": limit, **session.connection.scope}
    body |= {"capabilities": capabilities} if capabilities else {}
    body |= {"threshold": threshold} if threshold is not None else {}
    found = await session.connection.request(CommandsFound, "POST", f"{COMMANDS}/search", json=body)
    session.output.show_result(found, lambda: render_command_hits(found))


@remote_command("skillbus commands remove switch.on switch.off --yes")
async def remove_commands(session: Session, commands: Ids, yes: YesOption = False) -> None:
    """Remove commands from the library."""
    wanted = list(dict.fromkeys(commands))
    if not yes:
        session.confirm_removal(wanted)
    removed: list[str] = []
    for start in range(0, len(wanted), MAX_COMMAND_IDS):
        params = {"id": wanted[start : start + MAX_COMMAND_IDS], **session.connection.scope}
        removed += (await session.connection.request(CommandsRemoved, "DELETE", COMMANDS, params=params)).ids
    show_removed(session, wanted, removed, format_number(len(removed), "command"))
