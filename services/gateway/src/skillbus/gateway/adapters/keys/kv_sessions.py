"""Sessions of browsers in the key-value bucket `api-keys`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import WriteConflictError
from skillbus.contracts.gateway.sessions import SessionRecord
from skillbus.contracts.resources import API_KEYS
from skillbus.gateway.adapters.keys.ring_follower import RingFollower
from skillbus.gateway.domain.access.session import SessionRing

_SESSION: Final = "session"
_KEPT_AFTER_END: Final = timedelta(minutes=1)
"""Time after which no reading of all sessions is under way that began before the end of one."""


class KvSessions:
    """Implements `SessionStore`."""

    def __init__(self, bus: Bus, ring: SessionRing) -> None:
        self._ring = ring
        self._sessions = KvRecords(bus, API_KEYS, SessionRecord, key_of=lambda record: f"{_SESSION}.{record.id}")
        self.follower = RingFollower(bus, _SESSION, self._sessions, ring, self._remove_ended)

    async def add_session(self, record: SessionRecord) -> None:
        await self._sessions.save(f"{_SESSION}.{record.id}", record, 0)
        self._ring.put_record(record)

    async def end_session(self, record: SessionRecord, revoked_at: datetime) -> None:
        stored = await self._sessions.load(f"{_SESSION}.{record.id}")
        ended = record.model_copy(update={"revoked_at": revoked_at})
        if stored is not None:
            with suppress(WriteConflictError):  # a session is written again only to end it
                await self._sessions.save(f"{_SESSION}.{record.id}", ended, stored.revision)
        self._ring.put_record(ended)

    async def _remove_ended(self) -> None:
        for record in self._ring.list_ended(datetime.now(UTC) - _KEPT_AFTER_END):
            await self._sessions.purge(f"{_SESSION}.{record.id}")


@asynccontextmanager
async def open_sessions(bus: Bus, ring: SessionRing) -> AsyncGenerator[KvSessions]:
    """Keep `ring` current while the context is open. It is loaded when the context is entered, if NATS answers."""
    sessions = KvSessions(bus, ring)
    async with sessions.follower.follow():
        yield sessions
