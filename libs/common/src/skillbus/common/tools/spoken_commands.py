"""Spoken commands for models: the home that is meant, and the part of a resolution that a model needs."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.devices import HomesListed
from skillbus.contracts.retriever.command_resolution import CommandResolved, ResolvedQuery

DEVICES_MAX: Final = 100
"""Most devices of one command that a model is shown."""
_DROPPED_MAX: Final = 20
_NAMED_MAX: Final = 20


class HomeUnclearError(Exception):
    """The caller has to name another home, or any. The message names the homes."""


def choose_home(homes: HomesListed, named: str | None) -> str:
    """Return the home that is named; without a name, the only home. Raises HomeUnclearError."""
    names = [home.home for home in homes.homes]
    if named in names:
        return named
    if named is None and homes.total == 1:
        return names[0]
    if not names:
        raise HomeUnclearError("the project has no home yet: `PUT /api/devices` adds the devices of one")
    said = "name the home" if named is None else f"there is no home {named!r}"
    more = "" if homes.total <= _NAMED_MAX else f" and {homes.total - _NAMED_MAX} more"
    raise HomeUnclearError(f"{said}: the project has {', '.join(names[:_NAMED_MAX])}{more}")


def summarize_resolution(resolved: CommandResolved) -> dict[str, JsonValue]:
    """Return status, devices, commands and the question of each command of a sentence.

    `values` are those of the sentence; `arguments` of a device are those that its command takes.
    """
    results: list[JsonValue] = [_summarize_query(result) for result in resolved.results]
    if results:
        return {"results": results}
    return {"results": results, "note": "The sentence is no command for devices."}


def _summarize_query(result: ResolvedQuery) -> dict[str, JsonValue]:
    devices: list[JsonValue] = [
        {
            "id": device.id,
            "name": device.name,
            "room": device.room,
            "command": device.command.id,
            "arguments": device.command.arguments,
        }
        for device in result.devices[:DEVICES_MAX]
    ]
    about: dict[str, JsonValue] = {
        "status": result.status.value,
        "action": result.query.action,
        "values": result.query.arguments.model_dump(mode="json", exclude_none=True),
        "devices": devices,
        "devices_left_out": max(0, len(result.devices) - DEVICES_MAX) + result.more_devices,
        "question": result.question,
        "candidates": [{"id": one.id, "name": one.name, "room": one.room} for one in result.candidates],
        "dropped": [{"id": one.id, "name": one.name, "why": one.detail} for one in result.dropped[:_DROPPED_MAX]],
        "confidence": round(result.confidence, 3),
    }
    return _leave_out_empty(about)


def _leave_out_empty(about: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in about.items() if value not in (None, [], {}, 0) or name == "confidence"}
