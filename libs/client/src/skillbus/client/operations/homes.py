"""Operations on devices of homes, on commands of the library, and on spoken commands."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from skillbus.client.operation import ReplyParser, custom_operation, json_operation
from skillbus.client.operations.tools import CONTENT_NDJSON, IMPORT_S, format_ndjson
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.devices_http import CommandsImported, DevicesImported
from skillbus.contracts.indexer.commands import (
    CommandsListed,
    CommandSpec,
    CommandsRemoved,
    ListCommands,
    RemoveCommands,
)
from skillbus.contracts.indexer.devices import (
    Device,
    DevicesListed,
    DevicesRemoved,
    HomesListed,
    ListDevices,
    ListHomes,
    RemoveDevices,
)
from skillbus.contracts.retriever.command_resolution import (
    CommandResolved,
    CommandsFound,
    ParseQuery,
    QueryParsed,
    ResolveCommand,
    SearchCommands,
)

_DEVICES: Final = "/api/devices"
_COMMANDS: Final = "/api/commands"
_IDS: Final = {"ids": "id"}


def _prepare_devices(
    devices: Iterable[Device | Mapping[str, object]],
    *,
    home: str | None = None,
    only: Literal["problems"] | None = None,
    project: str | None = None,
) -> PreparedRequest:
    return PreparedRequest({"home": home, "only": only, "project": project}, format_ndjson(devices), CONTENT_NDJSON)


def _prepare_commands(
    commands: Iterable[CommandSpec | Mapping[str, object]],
    *,
    only: Literal["problems"] | None = None,
    project: str | None = None,
) -> PreparedRequest:
    return PreparedRequest({"only": only, "project": project}, format_ndjson(commands), CONTENT_NDJSON)


class HomeOperations:
    """Homes: their devices, the commands that devices carry out, and spoken commands."""

    resolve_command = json_operation(
        "POST", "/api/context/resolve", ResolveCommand, CommandResolved, is_idempotent=True
    )
    """Resolve a spoken command to devices of a home and the commands that they carry out. Nothing is carried out.

    Each command of the sentence has its `status`; `question` may say what to ask if it is not `resolved`.
    """
    parse_query = json_operation("POST", "/api/context/parse", ParseQuery, QueryParsed, is_idempotent=True)
    """Parse a spoken command into its fields. A sentence that is no command has no `queries`."""
    search_commands = json_operation("POST", f"{_COMMANDS}/search", SearchCommands, CommandsFound, is_idempotent=True)
    """Find the commands of the library that do what a query says, in any language."""
    put_devices = custom_operation(
        HttpRoute("PUT", _DEVICES, in_query=("home", "only", "project"), timeout_s=IMPORT_S),
        _prepare_devices,
        ReplyParser(DevicesImported),
    )
    """Add or replace devices; `home` is that of devices that name none. An invalid one is reported by its number."""
    list_devices = json_operation("GET", _DEVICES, ListDevices, DevicesListed)
    """List one page of the devices by home and id. `next` is the `after` of the next page."""
    remove_devices = json_operation("DELETE", _DEVICES, RemoveDevices, DevicesRemoved, renamed=_IDS, timeout_s=IMPORT_S)
    """Remove devices of a home: every one of `ids`, or all of the home."""
    list_homes = json_operation("GET", "/api/homes", ListHomes, HomesListed)
    """List the homes of a project with the number of their devices and rooms."""
    put_commands = custom_operation(
        HttpRoute("PUT", _COMMANDS, in_query=("only", "project"), timeout_s=IMPORT_S),
        _prepare_commands,
        ReplyParser(CommandsImported),
    )
    """Add or replace commands of the library. An invalid one is reported by its number, and the others are imported."""
    list_commands = json_operation("GET", _COMMANDS, ListCommands, CommandsListed)
    """List one page of the command library by id. `next` is the `after` of the next page."""
    remove_commands = json_operation(
        "DELETE", _COMMANDS, RemoveCommands, CommandsRemoved, renamed=_IDS, timeout_s=IMPORT_S, is_idempotent=True
    )
    """Remove commands from the library: every one of `ids`."""
