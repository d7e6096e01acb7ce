"""The catalogue of skills and tools in a key-value bucket of JetStream."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.common.bus.kv_records import KvRecords, RecordWrite
from skillbus.common.records import StoredRecord
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.domain.catalogue.ports import StoredSkill, StoredTool, ToolWrite
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.index.ports import Key

_STREAM: Final = f"KV_{CATALOGUE.name}"
_CONCURRENT_READS: Final = 16
"""Concurrent reads of tool records, each of one or of many."""
_REMEMBERED_WRITES: Final = 2_048
_WRITE_TIMEOUT_S: Final = 5.0
"""An acknowledgement that was lost with the connection never comes."""


def make_tool_key(project: str, tool_id: str) -> str:
    """Return the key of a tool's record. Ids contain characters that keys cannot, and up to 300 of them."""
    return f"{project}.tool.{hashlib.blake2b(tool_id.encode(), digest_size=16).hexdigest()}"


def open_skill_records(bus: Bus) -> KvRecords[SkillRecord]:
    """Return the records of skills, under `<project>.skill.<name>`."""
    return KvRecords(bus, CATALOGUE, SkillRecord, key_of=lambda record: _skill_key(record.project, record.name))


def open_tool_records(bus: Bus) -> KvRecords[ToolRecord]:
    """Return the records of tools, under `<project>.tool.<hash of the id>`."""
    return KvRecords(
        bus,
        CATALOGUE,
        ToolRecord,
        key_of=lambda record: make_tool_key(record.project, record.id),
        exclude_defaults=True,
    )


def _skill_key(project: str, name: str) -> str:
    return f"{project}.skill.{name}"


class KvSkills:
    """Records of skills."""

    def __init__(self, bus: Bus) -> None:
        self._records = open_skill_records(bus)

    async def load_skill(self, project: str, name: str) -> StoredSkill | None:
        return await self._records.load(_skill_key(project, name))

    async def load_skills(self, names: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], StoredSkill]:
        versions = await self._records.load_versions([_skill_key(*name) for name in names])
        return {
            name: StoredRecord(version.record, version.revision)
            for name, version in zip(names, versions, strict=True)
            if version.record is not None
        }

    async def save_skill(self, record: SkillRecord, revision: int) -> StoredSkill:
        return await self._records.save(_skill_key(record.project, record.name), record, revision)

    async def delete_skill(self, project: str, name: str, revision: int) -> None:
        await self._records.delete(_skill_key(project, name), revision)

    async def load_removal_time(self, project: str, name: str) -> datetime | None:
        return await self._records.deleted_at(_skill_key(project, name))

    async def load_all(self, project: str | None = None) -> Sequence[SkillRecord]:
        records = [stored.record async for _, stored in self._records.iterate(f"{project or '*'}.skill.*")]
        return sorted(records, key=lambda record: (record.project, record.name))


class KvTools:
    """Records of tools that are not skills."""

    def __init__(self, bus: Bus) -> None:
        self._jetstream = bus.jetstream
        self._records = open_tool_records(bus)
        self._reads = asyncio.Semaphore(_CONCURRENT_READS)
        self._written = dict[int, str]()
        """Keys of the last writes of this process, by revision."""
        self._writes = set[asyncio.Future[None]]()

    async def load_tool(self, project: str, tool_id: str) -> StoredTool | None:
        return (await self.load_tools(project, [tool_id])).get(tool_id)

    async def load_tools(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, StoredTool]:
        async with self._reads:
            versions = await self._records.load_versions([make_tool_key(project, tool_id) for tool_id in tool_ids])
        return {
            tool_id: StoredTool(version.record, version.revision)
            for tool_id, version in zip(tool_ids, versions, strict=True)
            if version.revision
        }

    async def save_tools(self, writes: Sequence[ToolWrite]) -> Sequence[int | None]:
        values = [
            RecordWrite(make_tool_key(write.record.project, write.record.id), write.record, write.over)
            for write in writes
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

    async def delete_tool(self, record: ToolRecord, revision: int) -> None:
        await self._records.delete(make_tool_key(record.project, record.id), revision)

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        """Answer with one request for many tools: did this process make all writes since the first of them?"""
        if not revisions:
            return True
        async with jetstream_call("read the last revision of the catalogue"):
            last = (await self._jetstream.stream_info(_STREAM)).state.last_seq
            if in_flight := set(self._writes):  # the bucket may have writes of this process that it does not know yet
                await asyncio.wait(in_flight)
        since = min(revisions.values())
        if last - since >= _REMEMBERED_WRITES:
            return False
        own = {make_tool_key(*tool): revision for tool, revision in revisions.items()}
        later = {at: self._written.get(at) for at in range(since, last + 1)}
        return all(key is not None and own.get(key, at) == at for at, key in later.items())

    async def iterate_tools(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        async for _, stored in self._records.iterate(f"{project or '*'}.tool.*"):
            yield stored.record
