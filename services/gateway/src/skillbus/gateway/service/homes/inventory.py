"""Devices of homes, and the library of commands that devices carry out."""

import json
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import ConfigDict, Field
from starlette.requests import ClientDisconnect

from skillbus.contracts.devices_http import CommandsImported, DevicesImported
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.commands import (
    LIST_COMMANDS,
    MAX_COMMAND_IDS,
    PUT_COMMANDS,
    REMOVE_COMMANDS,
    CommandsListed,
    CommandsRemoved,
    ListCommands,
    RemoveCommands,
)
from skillbus.contracts.indexer.devices import (
    LIST_DEVICES,
    LIST_HOMES,
    MAX_DEVICE_IDS,
    PUT_DEVICES,
    REMOVE_DEVICES,
    CommandId,
    DeviceId,
    DevicesListed,
    DevicesRemoved,
    HomeName,
    HomesListed,
    ListDevices,
    ListHomes,
    RemoveDevices,
)
from skillbus.contracts.message import DEFAULT_PROJECT, ProjectMessage
from skillbus.gateway.domain.imports.home_importer import CommandImportOptions, DeviceImportOptions, HomeImporter
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter, ProjectInQuery

_DEVICES: Final = "/api/devices"
_COMMANDS: Final = "/api/commands"
_PAGE_DEVICES: Final = 1_000
"""Most devices of one request of the removal of a home."""


class DeviceRemoval(ProjectMessage):
    """Devices to remove. An unknown parameter is refused: a misspelt `id` would remove the whole home."""

    model_config = ConfigDict(extra="forbid")

    home: HomeName
    ids: tuple[DeviceId, ...] = Field(default=(), alias="id", max_length=MAX_DEVICE_IDS)
    """Devices to remove. Absent means all of the home."""


@dataclass(frozen=True, slots=True)
class HomeRoutes:
    """Handlers of devices and commands."""

    caller: BusCaller
    importer: HomeImporter

    async def put_devices(self, request: Request, options: Annotated[DeviceImportOptions, Query()]) -> DevicesImported:
        """Add or replace devices of homes. The body is NDJSON, one device per line, or one JSON array.

        The body is processed while it arrives, up to 64 MiB and 200,000 lines. An invalid line, one with an unknown
        field, or one over 512 KiB, is reported by its number, and the other lines are imported. A home exists while it
        has a device.
        """
        try:
            return await self.importer.import_devices(request.stream(), options)
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body is incomplete.") from error

    async def list_devices(self, page: Annotated[ListDevices, Query()]) -> DevicesListed:
        """List one page of the devices by home and id. `next` is the `after` of the next page."""
        listed = await self.caller.call(LIST_DEVICES, page)
        if page.home is not None and not listed.total:
            await self._check_home(page.project, page.home)
        return listed

    async def _check_home(self, project: str, home: str) -> None:
        """Raise RequestError (`not_found`) if a home has no device."""
        whole = await self.caller.call(LIST_DEVICES, ListDevices(project=project, home=home, limit=1))
        if not whole.total:
            raise _make_unknown_home(project, home)

    async def remove_devices(self, removal: Annotated[DeviceRemoval, Query()]) -> DevicesRemoved:
        """Remove devices of a home: every `id`, which may be repeated, or all of the home, which ends with its last."""
        if not removal.ids:
            return await self._remove_home(removal.project, removal.home)
        request = RemoveDevices(project=removal.project, home=removal.home, ids=removal.ids)
        removed = await self.caller.call(REMOVE_DEVICES, request)
        if not removed.ids:
            await self._check_home(removal.project, removal.home)
        return removed

    async def _remove_home(self, project: str, home: str) -> DevicesRemoved:
        """Remove the devices of a home page by page: the ids of all may be more than a message can carry.

        Raises:
            RequestError: `not_found`: it has no device.
        """
        removed, wanted = list[str](), ListDevices(project=project, home=home, limit=_PAGE_DEVICES)
        while (page := await self.caller.call(LIST_DEVICES, wanted)).devices:
            ids = tuple(device.id for device in page.devices)
            gone = await self.caller.call(REMOVE_DEVICES, RemoveDevices(project=project, home=home, ids=ids))
            removed += gone.ids
            wanted = wanted.model_copy(update={"after": page.next})
            if page.next is None:
                break
        if not removed:
            raise _make_unknown_home(project, home)
        return DevicesRemoved(ids=tuple(removed))

    async def list_homes(self, query: Annotated[ListHomes, Query()]) -> HomesListed:
        """List the homes of a project with the number of their devices and rooms."""
        return await self.caller.call(LIST_HOMES, query)

    async def put_commands(
        self, request: Request, options: Annotated[CommandImportOptions, Query()]
    ) -> CommandsImported:
        """Add or replace commands of the library. The body is NDJSON, one command per line, or one JSON array.

        The body is processed while it arrives, with the limits of `PUT /api/devices`. Unchanged commands are not
        embedded again.
        """
        try:
            return await self.importer.import_commands(request.stream(), options)
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body is incomplete.") from error

    async def list_commands(self, page: Annotated[ListCommands, Query()]) -> CommandsListed:
        """List one page of the command library by id. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_COMMANDS, page)

    async def remove_commands(
        self,
        ids: Annotated[
            list[CommandId],
            Query(alias="id", min_length=1, max_length=MAX_COMMAND_IDS, description="Commands to remove."),
        ],
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> CommandsRemoved:
        """Remove commands from the library: every `id`, which may be repeated."""
        return await self.caller.call(REMOVE_COMMANDS, RemoveCommands(project=project, ids=tuple(ids)))


def _make_unknown_home(project: str, home: str) -> RequestError:
    return RequestError(
        ErrorCode.NOT_FOUND,
        f"There is no home {home!r} in the project {project!r}: `GET /api/homes` lists the homes, and "
        "`PUT /api/devices` adds devices to one.",
    )


_DEVICE: Final[dict[str, object]] = {
    "home": "Green House",
    "id": "lamp-1",
    "name": "台灯",
    "aliases": ["desk lamp"],
    "room": "书房",
    "type": "light",
    "capabilities": ["switch", "switchLevel"],
}
_COMMAND: Final[dict[str, object]] = {
    "id": "switch.on",
    "capability": {"id": "switch"},
    "command": {"id": "on"},
    "description": {"zh": "打开设备", "en": "Turn the device on"},
}


def _document_body(schema: str, example: dict[str, object]) -> dict[str, object]:
    """Return the documentation of a body that the handler reads itself."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "description": f"One `{schema}` per line."},
                    "example": f"{json.dumps(example, ensure_ascii=False)}\n",
                },
                "application/json": {
                    "schema": {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}},
                    "example": [example],
                },
            },
        }
    }


def add_home_routes(router: DocumentedRouter, routes: HomeRoutes) -> None:
    """Add the routes of devices and commands."""
    reader, editor, no_home = Role.READER, Role.EDITOR, (ErrorCode.NOT_FOUND,)
    devices, commands = _document_body("Device", _DEVICE), _document_body("CommandSpec", _COMMAND)
    router.add("PUT", _DEVICES, editor, routes.put_devices, PUT_DEVICES.errors, body=devices)
    router.add("GET", _DEVICES, reader, routes.list_devices, (*LIST_DEVICES.errors, *no_home))
    router.add("DELETE", _DEVICES, editor, routes.remove_devices, (*REMOVE_DEVICES.errors, *no_home))
    router.add("GET", "/api/homes", reader, routes.list_homes, LIST_HOMES.errors)
    router.add("PUT", _COMMANDS, editor, routes.put_commands, PUT_COMMANDS.errors, body=commands)
    router.add("GET", _COMMANDS, reader, routes.list_commands, LIST_COMMANDS.errors)
    router.add("DELETE", _COMMANDS, editor, routes.remove_commands, REMOVE_COMMANDS.errors)
