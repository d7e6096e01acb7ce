"""Files on the bus: one bucket of the object store.

nats-py's `get` waits for ever when an object is overwritten while it is read: `jetstream_call` gives it a deadline.
"""

import io
from typing import Final

from nats.js.api import ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore as NatsObjectStore

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream_call import jetstream_call
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import ObjectBucket

_CHUNK_BYTES: Final = 128 * 1024


class ObjectStore:
    """One bucket. Every method raises `RequestError` with `unavailable` or `deadline_exceeded` when NATS is away."""

    def __init__(self, store: NatsObjectStore, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

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
            try:
                return sorted(info.name for info in await self._store.list() if not info.deleted)
            except NotFoundError:
                return []

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
        return ObjectStore(await bus.jetstream.object_store(bucket.name), bucket.name)
