"""Ports to the records of skills and tools, and to the list of tools kept in memory.

Methods raise RequestError when the record is unavailable, and WriteConflictError when somebody else wrote it since.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from skillbus.common.records import StoredRecord
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ListedTool, ToolRecord
from skillbus.indexer.domain.record.ports import ListedRecords, RecordStore

StoredSkill = StoredRecord[SkillRecord]


class SkillCatalogue(Protocol):
    """Record of the installed skills. The index is made from it and can be built again."""

    async def load_skill(self, project: str, name: str) -> StoredSkill | None:
        """Return one record."""

    async def load_skills(self, names: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], StoredSkill]:
        """Return the records that exist, by project and name."""

    async def save_skill(self, record: SkillRecord, revision: int) -> StoredSkill:
        """Write a record over `revision`, 0 for a new one."""

    async def delete_skill(self, project: str, name: str, revision: int) -> None:
        """Delete a record that is still at `revision`."""

    async def load_removal_time(self, project: str, name: str) -> datetime | None:
        """Return the time at which a skill was uninstalled; None if it never was, or is installed."""

    async def load_all(self, project: str | None = None) -> Sequence[SkillRecord]:
        """Return the records of a project or of all projects, ordered by project and name."""


ToolCatalogue = RecordStore[ToolRecord]
"""Records of tools that are not skills."""
ListedTools = ListedRecords[ListedTool]
"""List of all tools, ordered by id. It includes skills, and finds only tools that are not skills by their key."""
