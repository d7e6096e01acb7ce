"""Import of devices of homes, and of the commands that devices can carry out."""

from collections.abc import AsyncIterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Final, TypeVar

from pydantic import JsonValue

from skillbus.contracts.devices_http import (
    CommandLineImported,
    CommandsImported,
    DeviceLineImported,
    DevicesImported,
    ImportReport,
)
from skillbus.contracts.indexer.commands import (
    LIST_COMMANDS,
    MAX_COMMANDS,
    PUT_COMMANDS,
    CommandPut,
    CommandsPut,
    ListCommands,
    PutCommands,
)
from skillbus.contracts.indexer.devices import (
    MAX_DEVICES,
    PUT_DEVICES,
    Device,
    DevicePut,
    DevicesPut,
    HomeName,
    PutDevices,
    PutOutcome,
)
from skillbus.gateway.domain.imports.bulk import ImportResult, LineResult
from skillbus.gateway.domain.imports.put_target import ImportOptions, PutTarget, get_text, import_objects
from skillbus.gateway.domain.ports import BusCaller

LineT = TypeVar("LineT", bound=LineResult)
ReportT = TypeVar("ReportT", bound=ImportReport)


_PAGE_COMMANDS: Final = 1_000
_MOST_UNKNOWN: Final = 100
"""Unknown capabilities that a report names."""


class DeviceImportOptions(ImportOptions):
    """Options of an import of devices."""

    home: HomeName | None = None
    """Home of the devices that name none."""


class CommandImportOptions(ImportOptions):
    """Options of an import of commands."""


class HomeImporter:
    """Sends devices and commands to the indexer, and retries while the bus or the indexer is away."""

    def __init__(self, caller: BusCaller, *, patience_s: float) -> None:
        self._caller = caller
        self._patience_s = patience_s

    async def import_devices(self, body: AsyncIterable[bytes], options: DeviceImportOptions) -> DevicesImported:
        """Put every valid device of a body, and name the capabilities that the library does not know.

        Raises:
            RequestError: As `import_objects` does.
        """
        used = set[str]()
        target: PutTarget[DevicePut, DeviceLineImported] = PutTarget(
            "devices",
            PUT_DEVICES.service,
            MAX_DEVICES,
            partial(self._put_devices, options, used),
            lambda line, put: DeviceLineImported(line=line, **dict(put)),
            partial(_reject_device, options),
            partial(_name_device, options),
            _find_unknown_field,
        )
        done = _report(DevicesImported, await import_objects(body, target, options, self._patience_s))
        return done.model_copy(update={"unknown_capabilities": await self._find_unknown(options.project, used)})

    async def import_commands(self, body: AsyncIterable[bytes], options: CommandImportOptions) -> CommandsImported:
        """Put every valid command of a body into the library. Raises RequestError as `import_objects` does."""
        target: PutTarget[CommandPut, CommandLineImported] = PutTarget(
            "commands",
            PUT_COMMANDS.service,
            MAX_COMMANDS,
            partial(self._put_commands, options),
            lambda line, put: CommandLineImported(line=line, **dict(put)),
            lambda line, value, problem: CommandLineImported(
                line=line, id=get_text(value, "id"), outcome=PutOutcome.REJECTED, error=problem
            ),
        )
        return _report(CommandsImported, await import_objects(body, target, options, self._patience_s))

    async def _find_unknown(self, project: str, used: set[str]) -> tuple[str, ...]:
        """Return the capabilities that no command has; none while there are no commands. Raises RequestError."""
        unknown, wanted = set(used), ListCommands(project=project, limit=_PAGE_COMMANDS)
        while unknown:
            page = await self._caller.call(LIST_COMMANDS, wanted)
            unknown -= {command.capability.id for command in page.commands}
            if not page.total:
                return ()
            if page.next is None:
                break
            wanted = wanted.model_copy(update={"after": page.next})
        return tuple(sorted(unknown)[:_MOST_UNKNOWN])

    async def _put_devices(
        self, options: DeviceImportOptions, used: set[str], devices: tuple[JsonValue, ...]
    ) -> DevicesPut:
        used.update(capability for device in devices for capability in _list_capabilities(device))
        request = PutDevices(project=options.project, devices=devices, home=options.home)
        return await self._caller.call(PUT_DEVICES, request)

    async def _put_commands(self, options: CommandImportOptions, commands: tuple[JsonValue, ...]) -> CommandsPut:
        return await self._caller.call(PUT_COMMANDS, PutCommands(project=options.project, commands=commands))


def _name_device(options: DeviceImportOptions, value: Mapping[str, JsonValue]) -> frozenset[str]:
    """Return home and id: devices of two homes may have the same id."""
    device_id, home = get_text(value, "id"), get_text(value, "home") or options.home
    return frozenset() if device_id is None else frozenset({f"{home}\n{device_id}"})


def _list_capabilities(device: JsonValue) -> list[str]:
    found = device.get("capabilities") if isinstance(device, dict) else None
    return [one.strip() for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _find_unknown_field(value: Mapping[str, JsonValue]) -> str | None:
    """Return the problem of a device with a field that devices do not have: ADR 0029."""
    known = sorted(Device.model_fields)
    unknown = next((name for name in value if name not in Device.model_fields), None)
    if unknown is None:
        return None
    near = get_close_matches(unknown, known, 1)
    hint = f"do you mean `{near[0]}`?" if near else f"the fields are {', '.join(known)}."
    return f"{unknown[:50]}: There is no such field: {hint}"


def _reject_device(
    options: DeviceImportOptions, line: int, value: Mapping[str, JsonValue], problem: str
) -> DeviceLineImported:
    home = get_text(value, "home") or options.home
    return DeviceLineImported(
        line=line, home=home, id=get_text(value, "id"), outcome=PutOutcome.REJECTED, error=problem
    )


def _report(kind: type[ReportT], done: ImportResult[LineT]) -> ReportT:
    return kind.model_validate(
        {
            "total": sum(done.counts.values()),
            "counts": {outcome: done.counts.get(outcome, 0) for outcome in PutOutcome},
            "indexed": done.indexed,
            "results": done.results,
        }
    )
