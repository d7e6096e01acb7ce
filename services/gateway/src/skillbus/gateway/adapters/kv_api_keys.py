"""API keys in the key-value bucket `api-keys`, and the copy of them that each replica keeps in memory."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.background import FailureLog
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import WriteConflictError
from skillbus.contracts.gateway.api_keys import ApiKeyRecord, ApiKeyUse
from skillbus.contracts.resources import API_KEYS
from skillbus.gateway.domain.access.key_ring import KeyRing

_PREFIX: Final = f"$KV.{API_KEYS.name}."
_KEY: Final = "key."
_USE: Final = "use."
_OPERATION: Final = "KV-Operation"
"""Header of the marker that a deletion leaves."""
_TRIES: Final = 3
_RELOAD_S: Final = 60.0
"""All keys are read again after this time, for writes that the subscription did not receive."""
_RETRY_S: Final = 2.0
KEPT_AFTER_END: Final = timedelta(days=30)
"""Time for which a key that was revoked or has expired stays in the list."""
_USE_EVERY_S: Final = 60.0
"""Shortest time between two writes of the last use of a key by one replica."""


class KvApiKeys:
    """Implements `KeyStore`, keeps a `KeyRing` current, and writes the last use of each key.

    A write to a key-value bucket is a publish that every replica hears: a revoked key is refused at once. A replica
    without a connection hears no write. After its reconnection no API key lets a request in until all were read again.
    """

    def __init__(self, bus: Bus, ring: KeyRing) -> None:
        self._client = bus.client
        self._ring = ring
        self._keys = KvRecords(bus, API_KEYS, ApiKeyRecord, key_of=lambda record: f"{_KEY}{record.id}")
        self._uses = KvRecords(bus, API_KEYS, ApiKeyUse)
        self._reconnects = self._client.stats["reconnects"]
        self._reload = asyncio.Event()
        self._noted: dict[str, float] = {}
        self._used: asyncio.Queue[str] = asyncio.Queue()
        self._failures = FailureLog()
        self._is_closing = False

    async def list_records(self) -> tuple[ApiKeyRecord, ...]:
        return tuple((await self._keys.load_all(f"{_KEY}*")).values())

    async def list_uses(self) -> Mapping[str, datetime]:
        uses = await self._uses.load_all(f"{_USE}*")
        return {key.removeprefix(_USE): use.last_used_at for key, use in uses.items()}

    async def add_record(self, record: ApiKeyRecord) -> None:
        await self._keys.save(f"{_KEY}{record.id}", record, 0)
        self._ring.put_record(record)

    async def revoke_record(self, key_id: str, revoked_at: datetime) -> ApiKeyRecord | None:
        tries = _TRIES
        while True:
            stored = await self._keys.load(f"{_KEY}{key_id}")
            if stored is None:
                return None
            revoked = stored.record.model_copy(update={"revoked_at": stored.record.revoked_at or revoked_at})
            try:
                await self._keys.save(f"{_KEY}{key_id}", revoked, stored.revision)
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

    def check_connection(self) -> None:
        """After a reconnection, mark the ring as not loaded and start the reading of all keys."""
        if self._client.stats["reconnects"] != self._reconnects:
            self._ring.is_loaded = False
            self._reload.set()

    async def on_write(self, message: Msg) -> None:
        """Take over a key that a replica wrote."""
        key = message.subject.removeprefix(_PREFIX)
        if _OPERATION in (message.headers or {}):
            self._ring.drop_record(key.removeprefix(_KEY))
        elif (record := self._keys.parse_value(key, message.data)) is not None:
            self._ring.put_record(record)

    async def load_ring(self) -> bool:
        """Read all keys. Return False, after logging the reason, if they cannot be read."""
        with self._failures.guard("load_api_keys"):
            self._reconnects = self._client.stats["reconnects"]
            known_before = self._ring.ids
            self._ring.replace_records(await self.list_records(), known_before)
            return True
        return False

    async def reload_ring(self, *, was_loaded: bool) -> None:
        """Read all keys again from time to time, and soon after a reconnection or a failure, until cancelled."""
        while not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELOAD_S if was_loaded else _RETRY_S):
                    await self._reload.wait()
            self._reload.clear()
            was_loaded = await self.load_ring()
            with self._failures.guard("remove_ended_keys"):
                await self.remove_ended(datetime.now(UTC) - KEPT_AFTER_END)

    async def remove_ended(self, before: datetime) -> None:
        """Delete the records of keys that ended before a time. Makers come last, so that no line has a gap."""
        for record in self._ring.list_ended(before):
            await self._uses.purge(f"{_USE}{record.id}")
            await self._keys.purge(f"{_KEY}{record.id}")

    def close(self) -> None:
        """End the loops. Cancellation is not enough: before Python 3.12 waits in nats-py can swallow one."""
        self._is_closing = True

    async def write_uses(self) -> None:
        """Write the last use of each key that was noted, until cancelled."""
        while not self._is_closing:
            key = f"{_USE}{await self._used.get()}"
            with self._failures.guard("write_key_use"), suppress(WriteConflictError):  # another replica has written it
                stored = await self._uses.load(key)
                now = datetime.now(UTC).replace(microsecond=0)
                await self._uses.save(key, ApiKeyUse(last_used_at=now), 0 if stored is None else stored.revision)


@asynccontextmanager
async def open_api_keys(bus: Bus, ring: KeyRing) -> AsyncGenerator[KvApiKeys]:
    """Keep `ring` current while the context is open. It is loaded when the context is entered, if NATS answers."""
    keys = KvApiKeys(bus, ring)
    subscription = await bus.client.subscribe(f"{_PREFIX}{_KEY}*", cb=keys.on_write)
    tasks = list[asyncio.Task[None]]()
    try:
        was_loaded = await keys.load_ring()
        tasks.append(asyncio.create_task(keys.reload_ring(was_loaded=was_loaded)))
        tasks.append(asyncio.create_task(keys.write_uses()))
        yield keys
    finally:
        keys.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(NatsError):  # a connection that is closed or draining has dropped it already
            await subscription.unsubscribe()
