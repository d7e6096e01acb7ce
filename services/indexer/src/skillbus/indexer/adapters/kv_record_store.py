"""Records of one kind in a key-value bucket, read and written many at once."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from pydantic import BaseModel

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.common.bus.kv_records import KvRecords, RecordWrite
from skillbus.common.records import RecordVersion
from skillbus.contracts.resources import KeyValueBucket
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.record.ports import RecordUpdate

StoredT = TypeVar("StoredT", bound=BaseModel)

_CONCURRENT_READS: Final = 16
"""Concurrent reads of records, each of one or of many."""
_REMEMBERED_WRITES: Final = 2_048
_WRITE_TIMEOUT_S: Final = 5.0
"""An acknowledgement that was lost with the connection never comes."""


def hash_for_key(text: str) -> str:
    """Return a token of a bucket's key for any text: names and ids contain characters that keys cannot."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class KvRecordStore(Generic[StoredT]):
    """Records of one kind. A record is under the key that `make_key` makes of its project and id."""

    def __init__(
        self,
        bus: Bus,
        bucket: KeyValueBucket,
        records: KvRecords[StoredT],
        make_key: Callable[[Key], str],
        key_of: Callable[[StoredT], Key],
        pattern: str,
    ) -> None:
        """Use an existing bucket. `pattern` matches the keys of a project, with `{}` in place of its name."""
        self._jetstream = bus.jetstream
        self._bucket = bucket
        self._records = records
        self._make_key = make_key
        self._key_of = key_of
        self._pattern = pattern
        self._reads = asyncio.Semaphore(_CONCURRENT_READS)
        self._written = dict[int, str]()
        """Keys of the last writes of this process, by revision."""
        self._writes = set[asyncio.Future[None]]()

    async def load_record(self, key: Key) -> RecordVersion[StoredT] | None:
        return (await self.load_records([key])).get(key)

    async def load_records(self, keys: Sequence[Key]) -> Mapping[Key, RecordVersion[StoredT]]:
        async with self._reads:
            versions = await self._records.load_versions([self._make_key(key) for key in keys])
        return {key: version for key, version in zip(keys, versions, strict=True) if version.revision}

    async def save_records(self, updates: Sequence[RecordUpdate[StoredT]]) -> Sequence[int | None]:
        values = [
            RecordWrite(self._make_key(self._key_of(update.record)), update.record, update.over) for update in updates
        ]
        done = asyncio.get_running_loop().create_future()
        self._writes.add(done)
        try:
            written = await self._records.save_many(values, _WRITE_TIMEOUT_S)
            self._written |= {at: value.key for at, value in zip(written, values, strict=True) if at is not None}
            # The oldest writes come first, or nearly so.
            for revision in [*islice(self._written, max(0, len(self._written) - _REMEMBERED_WRITES))]:
                del self._written[revision]
        finally:
            self._writes.discard(done)
            done.set_result(None)
        return written

    async def delete_records(self, revisions: Mapping[Key, int]) -> Sequence[bool]:
        return await self._records.delete_many({self._make_key(key): at for key, at in revisions.items()})

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        """Answer with one request for many records: did this process make all writes since the first of them?"""
        if not revisions:
            return True
        async with jetstream_call(f"read the last revision of {self._bucket.name}"):
            last = (await self._jetstream.stream_info(self._bucket.stream)).state.last_seq
            if in_flight := set(self._writes):  # the bucket may have writes of this process that it does not know yet
                await asyncio.wait(in_flight)
        since = min(revisions.values())
        if last - since >= _REMEMBERED_WRITES:
            return False
        own = {self._make_key(key): revision for key, revision in revisions.items()}
        later = {at: self._written.get(at) for at in range(since, last + 1)}
        return all(key is not None and own.get(key, at) == at for at, key in later.items())

    async def iterate_records(self, project: str | None = None) -> AsyncIterator[StoredT]:
        async for _, stored in self._records.iterate(self._pattern.format(project or "*")):
            yield stored.record
