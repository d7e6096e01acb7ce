"""Copy in memory of all records of one kind in the bucket `api-keys`, which each replica of the gateway keeps."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Generic, TypeVar

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.background import PeriodicJob, run_in_background
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.contracts.gateway.sessions import SessionRecord
from skillbus.contracts.resources import API_KEYS
from skillbus.gateway.domain.access.record_ring import RecordRing

_OPERATION: Final = "KV-Operation"
"""Header of the marker that a deletion leaves."""
_RELOAD_S: Final = 60.0
"""All records are read again after this time, for writes that the subscription did not receive."""
_RETRY_S: Final = 2.0

FollowedT = TypeVar("FollowedT", ApiKeyRecord, SessionRecord)


class RingFollower(Generic[FollowedT]):
    """Keeps a `RecordRing` current with the records `<kind>.<id>`.

    A write to a key-value bucket is a publish that every replica hears: a revoked record is refused at once. A replica
    without a connection hears no write. After its reconnection no record lets a request in until all were read again.
    """

    def __init__(
        self,
        bus: Bus,
        kind: str,
        records: KvRecords[FollowedT],
        ring: RecordRing[FollowedT],
        remove_ended: Callable[[], Awaitable[None]],
    ) -> None:
        """`remove_ended` is awaited after each reading of all records."""
        self._client = bus.client
        self._kind = kind
        self._prefix = f"$KV.{API_KEYS.name}.{kind}."
        self._records: KvRecords[FollowedT] = records
        self._ring: RecordRing[FollowedT] = ring
        self._reconnects = self._client.stats["reconnects"]
        self._was_tried = asyncio.Event()
        steps = {f"load_{kind}_records": self.load_ring, f"remove_ended_{kind}_records": remove_ended}
        self._job = PeriodicJob(steps, every_s=_RELOAD_S, retry_s=(_RETRY_S,))

    async def list_records(self) -> tuple[FollowedT, ...]:
        """Return all stored records."""
        return tuple((await self._records.load_all(f"{self._kind}.*")).values())

    def check_connection(self) -> None:
        """After a reconnection, mark the ring as not loaded and start the reading of all records."""
        if self._client.stats["reconnects"] != self._reconnects and self._ring.is_loaded:
            self._ring.is_loaded = False
            self._job.retry()

    async def on_write(self, message: Msg) -> None:
        """Take over a record that a replica wrote."""
        record_id = message.subject.removeprefix(self._prefix)
        if _OPERATION in (message.headers or {}):
            self._ring.drop_record(record_id)
        elif (record := self._records.parse_value(f"{self._kind}.{record_id}", message.data)) is not None:
            self._ring.put_record(record)

    async def load_ring(self) -> None:
        """Read all records. Raise RequestError if they cannot be read."""
        try:
            reconnects = self._client.stats["reconnects"]
            known_before = self._ring.ids
            self._ring.replace_records(await self.list_records(), known_before)
            self._reconnects = reconnects
        finally:
            self._was_tried.set()

    @asynccontextmanager
    async def follow(self) -> AsyncGenerator[None]:
        """Keep the ring current while the context is open. It is loaded on entry, if NATS answers."""
        subscription = await self._client.subscribe(f"{self._prefix}*", cb=self.on_write)
        self._ring.check_connection = self.check_connection
        try:
            async with run_in_background(self._job):
                await self._was_tried.wait()
                yield
        finally:
            with suppress(NatsError):  # a connection that is closed or draining has dropped it already
                await subscription.unsubscribe()
