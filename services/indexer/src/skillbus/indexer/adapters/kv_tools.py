"""Records of tools in a key-value bucket of JetStream."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import iterate_last_values, jetstream_call
from skillbus.common.bus.jetstream_batch import KvWrite, read_values, write_values
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.domain.catalogue.ports import StoredTool, ToolWrite
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.errors import ToolConflictError
from skillbus.indexer.domain.index.ports import Key

_STREAM: Final = f"KV_{CATALOGUE.name}"
_PREFIX: Final = f"$KV.{CATALOGUE.name}."
_OPERATION: Final = "KV-Operation"
_AT_ONCE: Final = 16
"""Readers at once, each of one record or of many."""
_REMEMBERED: Final = 2_048
_WRITE_TIMEOUT_S: Final = 5.0
"""Of records that are written together. An acknowledgement that was lost with the connection never comes."""

log = structlog.get_logger(__name__)


class KvTools:
    """Records under `<project>.tool.<hash of the id>`; revisions are those of the bucket.

    What cannot be read as the record of its key is logged and counts as absent. Read from the leader of the stream and
    never from a copy: who has written sees it.
    """

    def __init__(self, client: Client, jetstream: JetStreamContext, bucket: KeyValue) -> None:
        self._client = client
        self._jetstream = jetstream
        self._bucket = bucket
        self._reads = asyncio.Semaphore(_AT_ONCE)
        self._written = dict[int, str]()
        """Keys of the last writes of this process by their revisions."""
        self._writes = set[asyncio.Future[None]]()

    async def get(self, project: str, tool_id: str) -> StoredTool | None:
        return (await self.get_many(project, [tool_id])).get(tool_id)

    async def get_many(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, StoredTool]:
        keys = [tool_key(project, tool_id) for tool_id in tool_ids]
        async with self._reads, jetstream_call(f"read the records of {len(keys)} tools"):
            values = await read_values(self._client, CATALOGUE.name, keys)
        return {
            tool_id: StoredTool(None if value.data is None else tool_record_of(key, value.data), value.revision)
            for tool_id, key, value in zip(tool_ids, keys, values, strict=True)
            if value is not None
        }

    async def put(self, record: ToolRecord, revision: int) -> int:
        [written] = await self.put_many([ToolWrite(record, revision)])
        if written is None:
            raise ToolConflictError(record.project, record.id)
        return written

    async def put_many(self, writes: Sequence[ToolWrite]) -> Sequence[int | None]:
        values = [_value_of(write) for write in writes]
        with self._under_way():
            async with jetstream_call(f"write the records of {len(writes)} tools", _WRITE_TIMEOUT_S):
                written = await write_values(self._client, CATALOGUE.name, values)
            self._written |= {at: value.key for at, value in zip(written, values, strict=True) if at is not None}
            self._forget()
        return written

    def _forget(self) -> None:
        """Keep the last writes; they come nearly in the order of their revisions."""
        for revision in [*islice(self._written, max(0, len(self._written) - _REMEMBERED))]:
            del self._written[revision]

    @contextmanager
    def _under_way(self) -> Generator[None]:
        done = asyncio.get_running_loop().create_future()
        self._writes.add(done)
        try:
            yield
        finally:
            self._writes.discard(done)
            done.set_result(None)

    async def none_since(self, revisions: Mapping[Key, int]) -> bool:
        """One question for many tools: whether all that the bucket took since the first of them was written here."""
        if not revisions:
            return True
        async with jetstream_call("ask how far the catalogue is"):
            last = (await self._jetstream.stream_info(_STREAM)).state.last_seq
            if under_way := set(self._writes):  # the bucket may have taken them without our knowing yet
                await asyncio.wait(under_way)
        since = min(revisions.values())
        if last - since >= _REMEMBERED:
            return False
        mine = {tool_key(*tool): revision for tool, revision in revisions.items()}
        later = {at: self._written.get(at) for at in range(since, last + 1)}
        return all(key is not None and mine.get(key, at) == at for at, key in later.items())

    async def delete(self, record: ToolRecord, revision: int) -> None:
        async with jetstream_call(f"remove the record of {record.id}"):
            try:
                await self._bucket.delete(tool_key(record.project, record.id), last=revision)
            except KeyWrongLastSequenceError as error:
                raise ToolConflictError(record.project, record.id) from error

    async def count(self) -> int:
        return sum([1 async for _ in self._values(None)])

    async def all(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        async for message in self._values(project):
            record = tool_record_of(message.subject.removeprefix(_PREFIX), message.data)
            if record is not None:
                yield record

    async def _values(self, project: str | None) -> AsyncIterator[Msg]:
        try:
            async for message in iterate_last_values(self._jetstream, _STREAM, f"{_PREFIX}{project or '*'}.tool.*"):
                if _OPERATION not in (message.headers or {}):
                    yield message
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"Could not read the catalogue of tools: {error!r}") from error


def _value_of(write: ToolWrite) -> KvWrite:
    record = write.record
    data = record.model_dump_json(exclude_defaults=True).encode()
    return KvWrite(tool_key(record.project, record.id), data, write.over)


def tool_record_of(key: str, value: bytes | None) -> ToolRecord | None:
    """An entry's record; None for what no indexer wrote: one such must not take all others along."""
    try:
        record = ToolRecord.model_validate_json(value or b"")
    except ValidationError as error:
        log.error("tool_record_damaged", key=key, errors=error.error_count())  # noqa: TRY400 - holds the value
        return None
    if key != tool_key(record.project, record.id):
        log.error("tool_record_damaged", key=key, holds=record.id)
        return None
    return record


def tool_key(project: str, tool_id: str) -> str:
    """Where the record of a tool is. Ids hold what keys cannot, and 300 characters of it."""
    return f"{project}.tool.{hashlib.blake2b(tool_id.encode(), digest_size=16).hexdigest()}"


async def open_tools(bus: Bus) -> KvTools:
    """The records of tools on a bus that was provisioned."""
    async with jetstream_call("open the catalogue of tools"):
        return KvTools(bus.client, bus.jetstream, await bus.jetstream.key_value(CATALOGUE.name))
