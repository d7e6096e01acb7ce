"""Files on the bus: one bucket of the object store.

nats-py's `get` waits for ever when an object is overwritten while it is read: `jetstream_call` gives it a deadline.
"""

import base64
import io
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ObjectInfo, ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore as NatsObjectStore

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import iterate_last_values, jetstream_call
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import ObjectBucket

_CHUNK_BYTES: Final = 128 * 1024
_PIECE_S: Final = 15.0
"""Within which the next piece of an object that is read must come."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that is there."""

    size_bytes: int
    pieces: AsyncGenerator[bytes]
    """Its bytes in order; to be closed when not read to the end."""


class ObjectStore:
    """One bucket. Every method raises `RequestError` with `unavailable` or `deadline_exceeded` when NATS is away."""

    def __init__(self, jetstream: JetStreamContext, store: NatsObjectStore, bucket: ObjectBucket) -> None:
        self._jetstream = jetstream
        self._store = store
        self._bucket = bucket.name
        self._stream = bucket.stream

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes under a name, instead of what was there."""
        await self.put_file(name, io.BytesIO(data))

    async def put_file(self, name: str, file: io.BufferedIOBase) -> None:
        """Store a file from its current position on."""
        meta = ObjectMeta(options=ObjectMetaOptions(max_chunk_size=_CHUNK_BYTES))
        async with jetstream_call(f"put {name} into {self._bucket}"):
            await self._store.put(name, file, meta=meta)

    async def get(self, name: str, max_bytes: int) -> bytes:
        """The bytes of an object.

        Raises:
            RequestError: `not_found`, or `payload_too_large` when it holds more than `max_bytes`.
        """
        async with jetstream_call(f"get {name} from {self._bucket}"):
            info = await self._store.get_info(name)
            if (info.size or 0) > max_bytes:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE, f"{name} holds {info.size} bytes, over the limit of {max_bytes}."
                )
            into = io.BytesIO()
            await self._store.get(name, writeinto=into)
            return into.getvalue()

    async def open(self, name: str, max_bytes: int) -> StoredObject:
        """An object to be read piece by piece, without holding it.

        Raises:
            RequestError: `not_found`, or `payload_too_large` when it holds more than `max_bytes`.
        """
        async with jetstream_call(f"open {name} of {self._bucket}"):
            info = await self._store.get_info(name)
        size = info.size or 0
        if size > max_bytes:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"{name} holds {size} bytes, over the limit of {max_bytes}."
            )
        subject = f"$O.{self._bucket}.C.{info.nuid}"
        return StoredObject(size, self._pieces(name, subject, size))

    async def _pieces(self, name: str, subject: str, size_bytes: int) -> AsyncGenerator[bytes]:
        """Raises RequestError when one does not come in time."""
        if size_bytes == 0:
            return
        what = f"read {name} of {self._bucket}"
        async with jetstream_call(what):
            subscription = await self._jetstream.subscribe(subject, ordered_consumer=True)
        try:
            left_bytes = size_bytes
            while left_bytes > 0:
                async with jetstream_call(what):
                    message = await subscription.next_msg(timeout=_PIECE_S)
                left_bytes -= len(message.data)
                yield message.data
        finally:
            with suppress(NatsError):  # a connection that closes takes its subscriptions along
                await subscription.unsubscribe()

    async def names(self) -> list[str]:
        """Names of the objects that are there."""
        async with jetstream_call(f"list {self._bucket}"):
            records = iterate_last_values(self._jetstream, self._stream, f"$O.{self._bucket}.M.>")
            infos = [ObjectInfo.from_response(json.loads(message.data)) async for message in records]
        return sorted(info.name for info in infos if not info.deleted)

    async def older_than(self, seconds: float, names: Collection[str]) -> list[str]:
        """Those of these objects that were put so long ago, by the server's clock."""
        before = datetime.now(UTC) - timedelta(seconds=seconds)
        async with jetstream_call(f"read when objects of {self._bucket} were put"):
            put_at = {name: await self._put_at(name) for name in names}
        return [name for name, at in put_at.items() if at is not None and at < before]

    async def _put_at(self, name: str) -> datetime | None:
        try:
            return (await self._jetstream.get_last_msg(self._stream, self._meta_of(name))).time
        except NotFoundError:
            return None

    def _meta_of(self, name: str) -> str:
        """Subject of the record about an object (NATS ADR-20)."""
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def delete(self, name: str) -> None:
        """Remove an object. That it is not there is fine."""
        async with jetstream_call(f"delete {name} from {self._bucket}"):
            try:
                await self._store.delete(name)
            except NotFoundError:
                return


async def open_object_store(bus: Bus, bucket: ObjectBucket) -> ObjectStore:
    """A bucket that `provision` has made."""
    async with jetstream_call(f"open bucket {bucket.name}"):
        return ObjectStore(bus.jetstream, await bus.jetstream.object_store(bucket.name), bucket)
