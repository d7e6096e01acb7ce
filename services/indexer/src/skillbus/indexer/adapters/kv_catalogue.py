"""The catalogue of skills and tools in a key-value bucket of JetStream."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.records import StoredRecord
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_record_store import KvRecordStore, hash_for_key
from skillbus.indexer.domain.catalogue.ports import StoredSkill
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord


def make_tool_key(project: str, tool_id: str) -> str:
    """Return the key of a tool's record. Ids contain characters that keys cannot, and up to 300 of them."""
    return f"{project}.tool.{hash_for_key(tool_id)}"


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


def open_tools(bus: Bus) -> KvRecordStore[ToolRecord]:
    """Return the store of tools that are not skills."""
    return KvRecordStore(
        bus, CATALOGUE, open_tool_records(bus), lambda key: make_tool_key(*key), lambda record: record.key, "{}.tool.*"
    )
