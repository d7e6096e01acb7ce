"""`skillbus homes` and `skillbus devices`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from skillbus.cli.client.http_api import DEVICES, HOMES
from skillbus.cli.completion import complete_device, complete_home
from skillbus.cli.errors import NotRemovedError
from skillbus.cli.homes.options import PAGE_SIZE, Home, Limit, TextIn
from skillbus.cli.homes.view import render_devices, render_homes
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.contracts.indexer.devices import MAX_DEVICE_IDS, DevicesListed, DevicesRemoved, HomesListed

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID...",
        help="Devices to remove. None means the whole home.",
        show_default=False,
        autocompletion=complete_device,
    ),
]
OneHome = Annotated[
    str, typer.Option("--home", metavar="NAME", help="Home of the devices.", autocompletion=complete_home)
]
Room = Annotated[str | None, typer.Option("--room", help="Only devices in this room.")]
Type = Annotated[str | None, typer.Option("--type", help="Only devices of this type, such as `light`.")]


@remote_command("skillbus homes list")
async def list_homes(session: Session) -> None:
    """List the homes of the project with the number of their devices and rooms."""
    found = await session.connection.request(HomesListed, "GET", HOMES, params=session.connection.scope)
    session.output.show_result(found, lambda: render_homes(found))


@remote_command("skillbus devices list --home home --type light")
async def list_devices(
    session: Session,
    home: Home = None,
    room: Room = None,
    device_type: Type = None,
    text: TextIn = None,
    limit: Limit = 100,
) -> None:
    """List devices by home and id."""
    given = {"home": home, "room": room, "type": device_type, "text": text}
    filters = {name: value for name, value in given.items() if value is not None}
    found, page = await session.connection.list_rows(
        DevicesListed, DEVICES, filters, lambda page: (page.devices, page.next), page_size=PAGE_SIZE, limit=limit
    )
    document = {"devices": [device.model_dump(mode="json") for device in found], "total": page.total}
    session.output.show_result(document, lambda: render_devices(found, page.total))


@remote_command("skillbus devices remove light.desk --home home")
async def remove_devices(session: Session, home: OneHome, devices: Ids = None, yes: YesOption = False) -> None:
    """Remove devices of a home: the named ones, or all of them, with which the home ends."""
    wanted = list(dict.fromkeys(devices or ()))
    if not yes:
        session.confirm_removal(wanted or [f"all devices of {home}"])
    removed: list[str] = []
    for start in range(0, max(1, len(wanted)), MAX_DEVICE_IDS):
        params = {"home": home, "id": wanted[start : start + MAX_DEVICE_IDS], **session.connection.scope}
        removed += (await session.connection.request(DevicesRemoved, "DELETE", DEVICES, params=params)).ids
    show_removed(session, wanted, removed, f"{format_number(len(removed), 'device')} of {clean_line(home)}")


def show_removed(session: Session, wanted: Sequence[str], removed: Sequence[str], what: str) -> None:
    """Show what was removed, and exit with 1 if something that was wanted did not exist."""
    session.output.show_result({"ids": list(removed)}, lambda: f"{what}: removed")
    if missing := [name for name in wanted if name not in set(removed)]:
        advice = "Check the ids, and --project if there are several."
        session.fail(NotRemovedError(f"not there: {', '.join(missing)}", advice))
