"""`skillbus resolve`."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from skillbus.cli.client.http_api import CONTEXT
from skillbus.cli.completion import complete_home
from skillbus.cli.errors import LocalFileError, NotResolvedError
from skillbus.cli.homes.importer import check_report, upload_commands, upload_devices
from skillbus.cli.homes.resolution_view import render_resolution
from skillbus.cli.input_files import decode_text, read_input
from skillbus.cli.options import build_request
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.retriever.command_resolution import CommandResolved, ResolutionStatus, ResolveCommand

Text = Annotated[str, typer.Argument(metavar="SENTENCE", help="Spoken command in Chinese or English.")]
Home = Annotated[
    str,
    typer.Option(
        "--home",
        metavar="NAME|FOLDER",
        help="Home, or a folder with devices.jsonl and commands.jsonl, which are imported first.",
        autocompletion=complete_home,
    ),
]
SessionOption = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Dialogue that remembers for ten minutes what `it` stands for."),
]
RoomOption = Annotated[
    str | None, typer.Option("--room", metavar="ROOM", help="Room of the speaker: what `in here` and `my room` mean.")
]
ParserOption = Annotated[
    Literal["auto", "rules", "model"],
    typer.Option("--parser", help="auto asks the chat model only where the grammar is not sure."),
]
Threshold = Annotated[
    float | None, typer.Option(min=0, max=1, help="Lowest score between the action and a command. Default: 0.5.")
]
Mentioned = Annotated[
    list[str] | None,
    typer.Option("--mentioned", metavar="ID", help="Device that `it` stands for. Repeatable."),
]

DEVICES_FILE: Final = "devices.jsonl"
COMMANDS_FILE: Final = "commands.jsonl"
_ADVICE: Final = "Import it with `skillbus devices import`, and give the name of one home with --home."
_NO_DEVICES: Final = f"Give the name of a home, or a folder with {DEVICES_FILE}. `skillbus homes list` shows the homes."
_NO_DEVICE: Final = "`skillbus devices list --home {home}` shows the names, rooms and types of its devices."


@remote_command("skillbus resolve '打开除卧室以外的灯' --home examples/home")
async def resolve_command(
    session: Session,
    text: Text,
    home: Home,
    dialogue: SessionOption = None,
    room: RoomOption = None,
    mentioned: Mentioned = None,
    parser: ParserOption = "auto",
    threshold: Threshold = None,
) -> None:
    """Resolve a spoken command to devices and their commands. Nothing is carried out.

    Shows each command of the sentence with its devices, the devices that were dropped and why, and the question to ask
    where the sentence leaves something open. Exits with 1 if any command of the sentence is not resolved.
    """
    fields = {"text": text, "room": room, "session": dialogue, "last_mentioned": mentioned, "threshold": threshold}
    folder = Path(home)
    if (folder / DEVICES_FILE).is_file():
        home = await _import_folder(session, folder)
    elif "/" in home and folder.is_dir():
        raise LocalFileError(f"{folder} has no {DEVICES_FILE}", _NO_DEVICES)
    elif "/" in home and folder.is_file():
        raise LocalFileError(f"{folder} is a file, and no folder with {DEVICES_FILE}", _ADVICE)
    request = build_request(ResolveCommand, fields | {"home": home, "parser": parser})
    body = request.model_dump(mode="json", exclude_unset=True) | session.connection.scope
    found = await session.connection.request(CommandResolved, "POST", f"{CONTEXT}/resolve", json=body)
    session.output.show_result(found, lambda: render_resolution(found))
    if not found.results:
        session.fail(NotResolvedError("it is no command", "Name what should happen, and to which devices."))
    if open_ones := [it for it in found.results if it.status is not ResolutionStatus.RESOLVED]:
        lacks = any(it.status is ResolutionStatus.NO_DEVICE for it in open_ones)
        advice = _NO_DEVICE.format(home=shlex.quote(home)) if lacks else ""
        session.fail(NotResolvedError(", ".join(it.status.value for it in open_ones), advice))


async def _import_folder(session: Session, folder: Path) -> str:
    """Import the devices and commands of a folder, and return the name of its home.

    Raises:
        LocalFileError: It has more than one home.
        NotImportedError: A line was rejected.
    """
    homes = _list_homes(folder)
    if len(homes) > 1:
        raise LocalFileError(f"{folder / DEVICES_FILE} has several homes: {', '.join(sorted(homes))}", _ADVICE)
    home = next(iter(homes), folder.resolve().name)
    check_report(await upload_devices(session, str(folder / DEVICES_FILE), {"home": home}))
    if (folder / COMMANDS_FILE).is_file():
        check_report(await upload_commands(session, str(folder / COMMANDS_FILE)))
    return home


def _list_homes(folder: Path) -> set[str]:
    """Return the homes that a folder's devices name. What is no device is left to the server."""
    path = folder / DEVICES_FILE
    text = decode_text(read_input(str(path)), str(path)).removeprefix("\ufeff")
    lines = [text] if text.lstrip().startswith("[") else text.split("\n")
    homes = set()
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        named = [it.get("home") for it in (value if isinstance(value, list) else [value]) if isinstance(it, dict)]
        homes |= {home.strip() for home in named if isinstance(home, str) and home.strip()}
    return homes
