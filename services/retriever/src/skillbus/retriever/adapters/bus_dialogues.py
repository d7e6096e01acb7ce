"""Dialogues in a key-value bucket of the bus, shared by all replicas."""

import hashlib
from collections.abc import Sequence

from pydantic import BaseModel

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.contracts.resources import DIALOGUES


class DialogueState(BaseModel):
    """Devices that a session mentioned last."""

    devices: tuple[str, ...]


class BusDialogues:
    """A `Dialogues`: one key for each session and home. The bucket forgets it."""

    def __init__(self, bus: Bus) -> None:
        self._records = KvRecords(bus, DIALOGUES, DialogueState)

    async def load_mentioned(self, project: str, home: str, session: str) -> Sequence[str]:
        stored = await self._records.load(_make_key(project, home, session))
        return () if stored is None else stored.record.devices

    async def save_mentioned(self, project: str, home: str, session: str, devices: Sequence[str]) -> None:
        await self._records.replace(_make_key(project, home, session), DialogueState(devices=tuple(devices)))


def _make_key(project: str, home: str, session: str) -> str:
    """Return the key of a session: a hash, because sessions and homes may have any characters."""
    digest = hashlib.sha256(f"{home}\0{session}".encode()).hexdigest()
    return f"{project}.{digest[:32]}"
