"""Files on the bus: one bucket of the object store.

Content is read by direct gets, one chunk after the other, and not through a consumer as nats-py does: who may create a
consumer makes the server publish stored messages on any subject. A read of an object that is replaced meanwhile fails
at once, and a slow reader holds nothing on the server.

A new object takes a message for each chunk and one for its record. nats-py looks for a former object first, which costs
a quarter of the time of a small one; here the server refuses the record if there is one (NATS ADR-20 has the format).
"""

import asyncio
import base64
import hashlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from nats.js import JetStreamContext
from nats.js.api import Header, ObjectInfo, ObjectMetaOptions
from nats.js.errors import BadRequestError, NotFoundError
from nats.js.object_store import ObjectStore as NatsObjectStore

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.disk_space import StorageRoom
from skillbus.common.bus.jetstream import iterate_last_values, jetstream_call
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import ObjectBucket

_CHUNK_BYTES: Final = 128 * 1024
_NEXT_CHUNK_S: Final = 15.0
"""Time limit for each chunk of an object that is read."""
_ANOTHER_WAS_WRITTEN: Final = 10071
"""`err_code` of a publish with a wrong expected last sequence. Source: nats-server, `server/errors.json`."""


@dataclass(frozen=True, slots=True)
class OpenObject:
    """An object that is being read."""

    size_bytes: int
    pieces: AsyncGenerator[bytes]
    """Content in order; close it if it is not read to the end."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that was stored."""

    size_bytes: int
    sha256: str
    """SHA-256 of the content, in hexadecimal."""


class ObjectStore:
    """One bucket. Every method raises `RequestError` with `unavailable` or `deadline_exceeded` when NATS is down."""

    def __init__(
        self,
        jetstream: JetStreamContext,
        store: NatsObjectStore,
        bucket: ObjectBucket,
        disk: StorageRoom | None = None,
    ) -> None:
        self._jetstream = jetstream
        self._disk = disk
        self._store = store
        self._bucket = bucket.name
        self._stream = bucket.stream

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes under a name, replacing an object of that name."""
        await self.put_file(name, io.BytesIO(data), len(data))

    async def put_file(self, name: str, file: io.BufferedIOBase, size_bytes: int) -> None:
        """Store a file of this size from its current position on, replacing an object of that name.

        Raises:
            RequestError: `storage_full` if the disk or the bucket has no room for it.
        """
        if self._disk is not None:
            self._disk.check(size_bytes)
        async with jetstream_call(f"put {name} into {self._bucket}"):
            await self._write(name, file)

    async def put_pieces(self, name: str, pieces: AsyncIterable[bytes]) -> StoredObject:
        """Store what arrives in pieces, without keeping it in memory. Nothing is kept of it if an error ends it.

        Each piece has the time limit of a whole object: an upload may take as long as its sender needs.

        Raises:
            RequestError: `storage_full` if the disk or the bucket has no room for it.
        """
        if self._disk is not None:
            self._disk.check()
        info, digest, action = self._make_record(name), hashlib.sha256(), f"put {name} into {self._bucket}"
        size_bytes = chunks = 0
        try:
            async for chunk in _cut_chunks(pieces):
                digest.update(chunk)
                async with jetstream_call(action):
                    await self._jetstream.publish(f"$O.{self._bucket}.C.{info.nuid}", chunk)
                size_bytes, chunks = size_bytes + len(chunk), chunks + 1
            info.size, info.chunks, info.digest = size_bytes, chunks, _format_digest(digest.digest())
            async with jetstream_call(action):
                former = await self._write_record(info)
        except BaseException:  # also a cancellation: the sender has left
            with suppress(RequestError):
                async with jetstream_call(action):
                    await self._purge_chunks(info)
            raise
        if former is not None and not former.deleted:
            async with jetstream_call(action):
                await self._purge_chunks(former)
        return StoredObject(size_bytes, digest.hexdigest())

    def _make_record(self, name: str) -> ObjectInfo:
        return ObjectInfo(
            name,
            self._bucket,
            nuid=uuid4().hex,
            mtime=datetime.now(UTC).isoformat(),
            options=ObjectMetaOptions(max_chunk_size=_CHUNK_BYTES),
        )

    async def _write(self, name: str, file: io.BufferedIOBase) -> None:
        info = self._make_record(name)
        try:
            await self._write_chunks(info, file)
            former = await self._write_record(info)
        except Exception:
            await self._purge_chunks(info)
            raise
        if former is not None and not former.deleted:
            await self._purge_chunks(former)

    async def _write_chunks(self, info: ObjectInfo, file: io.BufferedIOBase) -> None:
        """Write the content of an object, and add its size and digest to the record."""
        digest, info.size, info.chunks = hashlib.sha256(), 0, 0
        while chunk := await _read_chunk(file):
            await self._jetstream.publish(f"$O.{self._bucket}.C.{info.nuid}", chunk)
            digest.update(chunk)
            info.size += len(chunk)
            info.chunks += 1
        info.digest = _format_digest(digest.digest())

    async def _write_record(self, info: ObjectInfo) -> ObjectInfo | None:
        """Write the record of an object. Return that of the object it replaces, if there was one of its name."""
        subject, record = self._name_record(info.name), json.dumps(info.as_dict()).encode()
        headers = {Header.ROLLUP.value: "sub"}
        try:
            only_first = {**headers, Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: "0"}
            await self._jetstream.publish(subject, record, headers=only_first)
        except BadRequestError as error:
            if error.err_code != _ANOTHER_WAS_WRITTEN:
                raise
        else:
            return None
        former = None
        with suppress(NotFoundError):  # its time was over meanwhile
            former = await self._store.get_info(info.name, show_deleted=True)
        await self._jetstream.publish(subject, record, headers=headers)
        return former

    async def _purge_chunks(self, info: ObjectInfo) -> None:
        await self._jetstream.purge_stream(self._stream, subject=f"$O.{self._bucket}.C.{info.nuid}")

    def _name_record(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Return the content of an object.

        Raises:
            RequestError: `not_found`, or `payload_too_large` if it has more than `max_bytes`.
        """
        async with jetstream_call(f"get {name} from {self._bucket}"):
            opened = await self.open(name, max_bytes)
            return b"".join([piece async for piece in opened.pieces])

    async def open(self, name: str, max_bytes: int) -> OpenObject:
        """Open an object for reading it piece by piece, without keeping it in memory.

        Raises:
            RequestError: `not_found`, or `payload_too_large` if it has more than `max_bytes`.
        """
        async with jetstream_call(f"open {name} of {self._bucket}"):
            info = await self._check_size(name, max_bytes)
        return OpenObject(info.size or 0, self._read_pieces(info))

    async def _check_size(self, name: str, max_bytes: int) -> ObjectInfo:
        info = await self._store.get_info(name)
        if (info.size or 0) > max_bytes:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"{name} has {info.size} bytes, over the limit of {max_bytes}."
            )
        return info

    async def _read_pieces(self, info: ObjectInfo) -> AsyncGenerator[bytes]:
        action = f"read {info.name} of {self._bucket}"
        subject = f"$O.{self._bucket}.C.{info.nuid}"
        left_bytes, sequence, digest = info.size or 0, 1, hashlib.sha256()
        while left_bytes > 0:
            async with jetstream_call(action, _NEXT_CHUNK_S):
                sequence, piece = await self._get_chunk(subject, sequence)
            left_bytes -= len(piece)
            digest.update(piece)
            yield piece
        expected = (info.digest or "").partition("=")[2]  # SHA-256=<base64>, by NATS ADR-20
        actual = base64.urlsafe_b64encode(digest.digest()).decode()
        if info.size and expected.rstrip("=") != actual.rstrip("="):
            raise RequestError(ErrorCode.UNAVAILABLE, f"Could not {action}: its content does not have its digest.")

    async def _get_chunk(self, subject: str, sequence: int) -> tuple[int, bytes]:
        """Return the position after the next chunk of a subject, from a position of the stream on, and the chunk."""
        try:
            message = await self._jetstream.get_msg(self._stream, sequence, subject, direct=True, next=True)
        except NotFoundError:
            # A copy of the stream answers direct gets, and may lack the newest messages. The leader has them.
            message = await self._jetstream.get_msg(self._stream, sequence, subject, next=True)
        return (message.seq or 0) + 1, message.data or b""

    async def names(self) -> list[str]:
        """Return the names of all objects, sorted."""
        async with jetstream_call(f"list {self._bucket}"):
            records = iterate_last_values(self._jetstream, self._stream, f"$O.{self._bucket}.M.>")
            infos = [ObjectInfo.from_response(json.loads(message.data)) async for message in records]
        return sorted(info.name for info in infos if not info.deleted)

    async def older_than(self, seconds: float, names: Collection[str]) -> list[str]:
        """Return the names of objects that were stored longer than `seconds` ago, by the server's clock."""
        before = datetime.now(UTC) - timedelta(seconds=seconds)
        old: list[str] = []
        async with jetstream_call(f"read when objects of {self._bucket} were stored"):
            for name in names:
                with suppress(NotFoundError):
                    stored_at = (await self._jetstream.get_last_msg(self._stream, self._name_record(name))).time
                    if stored_at is not None and stored_at < before:
                        old.append(name)
        return old

    async def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        async with jetstream_call(f"delete {name} from {self._bucket}"):
            try:
                await self._store.delete(name)
            except NotFoundError:
                return


async def _read_chunk(file: io.BufferedIOBase) -> bytes:
    """Read the next chunk: bytes in memory right here, a file in a thread."""
    if isinstance(file, io.BytesIO):
        return file.read(_CHUNK_BYTES)
    return await asyncio.to_thread(file.read, _CHUNK_BYTES)


async def _cut_chunks(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield the same bytes in chunks of one size, the last one shorter."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        while len(held) >= _CHUNK_BYTES:
            yield bytes(held[:_CHUNK_BYTES])
            del held[:_CHUNK_BYTES]
    if held:
        yield bytes(held)


def _format_digest(digest: bytes) -> str:
    """Return a SHA-256 as records hold it. Source: NATS ADR-20."""
    return f"SHA-256={base64.urlsafe_b64encode(digest).decode()}"


async def open_object_store(bus: Bus, bucket: ObjectBucket) -> ObjectStore:
    """Open a bucket that `provision` has created."""
    async with jetstream_call(f"open bucket {bucket.name}"):
        return ObjectStore(bus.jetstream, await bus.jetstream.object_store(bucket.name), bucket, bus.disk)
