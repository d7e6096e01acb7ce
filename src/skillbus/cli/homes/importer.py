"""`skillbus devices import` and `skillbus commands import`."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Final, TypeVar

import typer

from skillbus.cli import tables
from skillbus.cli.client.http_api import COMMANDS, DEVICES, IMPORT_S, NDJSON
from skillbus.cli.completion import complete_home
from skillbus.cli.errors import NotImportedError
from skillbus.cli.input_files import upload_lines
from skillbus.cli.output import format_number
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.devices_http import CommandsImported, DevicesImported
from skillbus.contracts.indexer.devices import PutOutcome

DeviceFile = Annotated[str, typer.Argument(metavar="FILE", help="NDJSON or a JSON array of devices; - for stdin.")]
CommandFile = Annotated[str, typer.Argument(metavar="FILE", help="NDJSON or a JSON array of commands; - for stdin.")]
OfHome = Annotated[
    str | None,
    typer.Option("--home", metavar="NAME", help="Home of the devices that name none.", autocompletion=complete_home),
]

ReportT = TypeVar("ReportT", DevicesImported, CommandsImported)

_DEVICE_EXAMPLE: Final = 'A device is a line: {"home": …, "id": …, "name": …, "type": …}'
_COMMAND_EXAMPLE: Final = 'A command is a line: {"id": …, "capability": {"id": …}, "command": {"id": …}, …}'


@remote_command("skillbus devices import devices.jsonl --home home")
async def import_devices(session: Session, file: DeviceFile, home: OfHome = None) -> None:
    """Import devices of homes: one JSON object a line, or one JSON array.

    Each device needs `id`, `name` and `type`, and may have `home`, `aliases`, `room`, `capabilities` and `commands`.
    Unchanged devices are skipped. Exits with 1 if any is rejected; the others are imported.
    """
    report = await upload_devices(session, file, {"home": home} if home else {})
    _show_report(session, report, "device")


@remote_command("skillbus commands import commands.jsonl")
async def import_commands(session: Session, file: CommandFile) -> None:
    """Import commands into the library: one JSON object a line, or one JSON array.

    Each command needs `id`, `capability`, `command` and `description`, and may have `arguments`. Unchanged commands are
    skipped. Exits with 1 if any is rejected; the others are imported.
    """
    _show_report(session, await upload_commands(session, file), "command")


async def upload_devices(session: Session, file: str, params: Mapping[str, str]) -> DevicesImported:
    """Upload a file of devices.

    Raises:
        CliError: It cannot be read or sent.
    """
    return await _upload_file(session, file, DEVICES, DevicesImported, _DEVICE_EXAMPLE, params)


async def upload_commands(session: Session, file: str) -> CommandsImported:
    """Upload a file of commands. Raises as `upload_devices`."""
    return await _upload_file(session, file, COMMANDS, CommandsImported, _COMMAND_EXAMPLE, {})


def check_report(report: DevicesImported | CommandsImported) -> None:
    """Raise NotImportedError if any line of an import was rejected."""
    rejected = report.counts.get(PutOutcome.REJECTED, 0)
    if rejected:
        first = next((f": line {it.line}: {it.error}" for it in report.results if it.is_problem), "")
        advice = "Correct these lines and import the file again."
        raise NotImportedError(f"{rejected} of {report.total} were rejected{first}", advice)


async def _upload_file(
    session: Session, file: str, path: str, kind: type[ReportT], example: str, params: Mapping[str, str]
) -> ReportT:
    wanted = {"only": "problems"} | session.connection.scope | dict(params)

    async def send(part: AsyncIterator[bytes], first_line: int) -> ReportT:
        return await session.connection.request(
            kind,
            "PUT",
            path,
            params=wanted | {"first_line": str(first_line)},
            content=part,
            headers={b"Content-Type": NDJSON},
            wait_s=IMPORT_S,
        )

    reports = await upload_lines(session.output, file, example, send)
    counts = Counter[PutOutcome]()
    for part in reports:
        counts.update(part.counts)
    merged: dict[str, object] = {
        "total": sum(part.total for part in reports),
        "counts": dict(counts),
        "indexed": all(part.indexed for part in reports),
        "results": [line for part in reports for line in part.results],
    }
    if kind is DevicesImported:
        unknown = {one for part in reports for one in dict(part)["unknown_capabilities"]}
        merged["unknown_capabilities"] = sorted(unknown)
    return kind.model_validate(merged)


def _show_report(session: Session, report: DevicesImported | CommandsImported, noun: str) -> None:
    problems = [(str(it.line), it.id or "-", it.outcome.value, it.error or "") for it in report.results]
    later = "" if report.indexed else "; the index gets them when the vector store and the embedder are back"
    unknown = ", ".join(report.unknown_capabilities) if isinstance(report, DevicesImported) else ""
    lacks = f"; the library has no command of {unknown}" if unknown else ""
    summary = f"{format_number(report.total, noun)}{later}{lacks}"
    session.output.show_result(
        report, lambda: tables.build_import_report(f"{noun}s", report.counts, "line", problems, summary)
    )
    try:
        check_report(report)
    except NotImportedError as error:
        session.fail(error)
