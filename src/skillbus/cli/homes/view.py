"""Tables of homes, devices and commands."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import clean_line
from skillbus.contracts.indexer.commands import CommandArgument, CommandSpec
from skillbus.contracts.indexer.devices import Device, HomesListed
from skillbus.contracts.retriever.command_resolution import CommandsFound


def render_homes(found: HomesListed) -> RenderableType:
    """Render the homes of a project."""
    if not found.homes:
        return Text("There is no home. `skillbus devices import FILE` adds devices to one.")
    rows = [(it.home, str(it.devices), str(it.rooms)) for it in found.homes]
    headings = ("name", "devices", "rooms")
    table = tables.build_table(headings, rows, numbers=headings[1:])
    return Group(table, tables.format_count(len(found.homes), found.total, "home"))


def render_devices(found: Sequence[Device], total: int) -> RenderableType:
    """Render a part of the devices."""
    if not found:
        return Text("No device matches. `skillbus devices import FILE` adds devices.")
    rows = [
        (it.home, it.id, ", ".join((it.name, *it.aliases)), it.room or "-", it.type, ", ".join(it.capabilities) or "-")
        for it in found
    ]
    headings = ("home", "id", "names", "room", "type", "capabilities")
    table = tables.build_table(headings, rows, whole=("type", "capabilities"), optional=("capabilities",))
    return Group(table, tables.format_count(len(found), total, "device"))


def render_commands(found: Sequence[CommandSpec], total: int) -> RenderableType:
    """Render a part of the command library."""
    if not found:
        return Text("No command matches. `skillbus commands import FILE` adds commands.")
    rows = [
        (it.id, ", ".join(map(_format_argument, it.arguments)) or "-", join_descriptions(it.description))
        for it in found
    ]
    table = tables.build_table(("id", "arguments", "description"), rows, optional=("arguments",))
    return Group(table, tables.format_count(len(found), total, "command"))


def render_command_hits(found: CommandsFound) -> RenderableType:
    """Render the hits of a search for commands, best first."""
    if not found.results:
        return Text("Nothing fits. `--threshold 0` shows the nearest commands.")
    rows = [(hit.id, f"{hit.score:.2f}", join_descriptions(hit.description)) for hit in found.results]
    table = tables.build_table(("id", "score", "description"), rows, numbers=("score",))
    return Group(table, tables.format_search(len(rows), found.model, found.took_ms, found.degraded))


def join_descriptions(description: Mapping[str, str]) -> str:
    """Return the descriptions of a command in all its languages."""
    return tables.shorten_text(" / ".join(description.values()))


def _format_argument(argument: CommandArgument) -> str:
    bounds = [f"{bound:g}" for bound in (argument.minimum, argument.maximum) if bound is not None]
    note = f" {'..'.join(bounds)}" if len(bounds) == 2 else ""
    return clean_line(f"{argument.name}{note}")
