"""Files on the bus: one bucket of the object store.

nats-py's `get` waits for ever when an object is overwritten while it is read: `jetstream_call` gives it a deadline.
"""

import base64
import io
import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from nats.js import JetStreamContext
from nats.js.api import ObjectInfo, ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore as NatsObjectStore

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_call import jetstream_call
from skillbus.common.bus.last_values import last_values
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import ObjectBucket

_CHUNK_BYTES: Final = 128 * 1024


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

    async def names(self) -> list[str]:
        """Names of the objects that are there."""
        async with jetstream_call(f"list {self._bucket}"):
            records = last_values(self._jetstream, self._stream, f"$O.{self._bucket}.M.>")
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
