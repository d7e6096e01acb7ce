"""API keys in the key-value bucket `api-keys`."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from skillbus.common.background import FailureLog, run_in_background
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import WriteConflictError
from skillbus.contracts.gateway.api_keys import ApiKeyRecord, ApiKeyUse
from skillbus.contracts.resources import API_KEYS
from skillbus.gateway.adapters.keys.ring_follower import RingFollower
from skillbus.gateway.domain.access.key_ring import KeyRing

_KEY: Final = "key"
_USE: Final = "use."
_TRIES: Final = 3
KEPT_AFTER_END: Final = timedelta(days=30)
"""Time for which a key that was revoked or has expired stays in the list."""
_USE_EVERY_S: Final = 60.0
"""Shortest time between two writes of the last use of a key by one replica."""


class KvApiKeys:
    """Implements `KeyStore`, and `BackgroundTask`, which writes the last use of each key."""

    def __init__(self, bus: Bus, ring: KeyRing) -> None:
        self._disk = bus.disk
        self._ring = ring
        self._keys = KvRecords(bus, API_KEYS, ApiKeyRecord, key_of=lambda record: f"{_KEY}.{record.id}")
        self._uses = KvRecords(bus, API_KEYS, ApiKeyUse)
        self.follower = RingFollower(bus, _KEY, self._keys, ring, self._remove_ended)
        self._noted: dict[str, float] = {}
        self._used: asyncio.Queue[str] = asyncio.Queue()
        self._failures = FailureLog()
        self._is_stopped = False

    async def list_records(self) -> tuple[ApiKeyRecord, ...]:
        return await self.follower.list_records()

    async def list_uses(self) -> Mapping[str, datetime]:
        uses = await self._uses.load_all(f"{_USE}*")
        return {key.removeprefix(_USE): use.last_used_at for key, use in uses.items()}

    async def add_record(self, record: ApiKeyRecord) -> None:
        if self._disk is not None:
            self._disk.check()
        await self._keys.save(f"{_KEY}.{record.id}", record, 0)
        self._ring.put_record(record)

    async def revoke_record(self, key_id: str, revoked_at: datetime) -> ApiKeyRecord | None:
        tries = _TRIES
        while True:
            stored = await self._keys.load(f"{_KEY}.{key_id}")
            if stored is None:
                return None
            revoked = stored.record.model_copy(update={"revoked_at": stored.record.revoked_at or revoked_at})
            try:
                await self._keys.save(f"{_KEY}.{key_id}", revoked, stored.revision)
            except WriteConflictError:
                tries -= 1
                if not tries:
                    raise
            else:
                self._ring.put_record(revoked)
                return revoked

    def note_use(self, key_id: str) -> None:
        """Note that a key let a request in. Its record is written in the background."""
        now = time.monotonic()
        if now - self._noted.get(key_id, -_USE_EVERY_S) >= _USE_EVERY_S:
            self._noted[key_id] = now
            self._used.put_nowait(key_id)

    async def run(self) -> None:
        """Write the last use of each key that was noted, until `stop` is called."""
        while not self._is_stopped:
            key = f"{_USE}{await self._used.get()}"
            with self._failures.guard("write_key_use"), suppress(WriteConflictError):  # another replica has written it
                stored = await self._uses.load(key)
                now = datetime.now(UTC).replace(microsecond=0)
                await self._uses.save(key, ApiKeyUse(last_used_at=now), 0 if stored is None else stored.revision)

    def stop(self) -> None:
        """End `run` when it is cancelled, also if a wait in nats-py swallows that."""
        self._is_stopped = True

    async def _remove_ended(self) -> None:
        """Delete the records of keys that ended long ago. Makers come last, so that no line has a gap."""
        for record in self._ring.list_ended(datetime.now(UTC) - KEPT_AFTER_END):
            await self._uses.purge(f"{_USE}{record.id}")
            await self._keys.purge(f"{_KEY}.{record.id}")


@asynccontextmanager
async def open_api_keys(bus: Bus, ring: KeyRing) -> AsyncGenerator[KvApiKeys]:
    """Keep `ring` current while the context is open. It is loaded when the context is entered, if NATS answers."""
    keys = KvApiKeys(bus, ring)
    async with keys.follower.follow(), run_in_background(keys):
        yield keys
