"""Homes and commands of two projects that have nothing to do with one another."""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from .conftest import Json, System
from .knowledge_neighbours import OWNER, STRANGER, WORD, ask, objects

SHARED: Final = "villa"
"""Name of a home of both."""
SECRET: Final = "northern-home"
"""Name of a home of the owner alone."""
DIALOGUE: Final = "kitchen speaker"
"""Session of both."""
_SECRETS: Final = (WORD, "northern-")


@dataclass(frozen=True, slots=True)
class HomeNeighbours:
    """Two projects, each with a home `villa` and a device `lamp` in it, and commands."""

    system: System
    cursor: JsonValue
    """Of a list of the owner's devices."""
    revision: JsonValue
    """Of the owner's `villa`."""

    async def ask(self, name: str, asked: Json) -> Json:
        return await ask(self.system, name, asked)

    async def list_owned(self) -> list[Json]:
        """All that the owner can see of its own."""
        requests: list[tuple[str, Json]] = [
            ("list_homes", {}),
            ("list_devices", {}),
            ("list_commands", {}),
            ("load_home", {"home": SHARED}),
            ("load_home", {"home": SECRET}),
        ]
        return [await self.ask(name, {"project": OWNER, **asked}) for name, asked in requests]


def find_told(said: str, asked: str) -> list[str]:
    """What of the owner's is said, and was not asked with."""
    return [secret for secret in _SECRETS if secret in said and secret not in asked]


def make_device(home: str, name: str, room: str) -> Json:
    return {"home": home, "id": "lamp", "name": name, "room": room, "type": "light", "capabilities": ["switch"]}


async def settle_homes(system: System) -> HomeNeighbours:
    """Make the homes, and let the owner speak of its lamp."""
    owned: list[JsonValue] = [make_device(home, f"{WORD}灯", "northern-room") for home in (SHARED, SECRET)]
    await ask(system, "put_devices", {"project": OWNER, "devices": owned})
    strange: list[JsonValue] = [make_device(SHARED, "台灯", "study")]
    await ask(system, "put_devices", {"project": STRANGER, "devices": strange})
    for project, word in ((OWNER, WORD), (STRANGER, "own")):
        command: Json = {
            "id": f"{'northern' if project == OWNER else 'southern'}-switch.on",
            "capability": {"id": "switch"},
            "command": {"id": "on"},
            "description": {"en": f"Turn the {word} device on", "zh": "打开设备"},
        }
        await ask(system, "put_commands", {"project": project, "commands": [command]})
    spoken: Json = {"project": OWNER, "home": SHARED, "text": f"打开{WORD}灯", "session": DIALOGUE}
    (resolved,) = objects(await ask(system, "resolve_command", {**spoken, "parser": "rules"}), "results")
    assert resolved["status"] == "resolved", resolved
    page = await ask(system, "list_devices", {"project": OWNER, "limit": 1})
    loaded = await ask(system, "load_home", {"project": OWNER, "home": SHARED})
    return HomeNeighbours(system, page["next"], loaded["revision"])
