"""Ports to the records of skills and tools, and to the list of tools kept in memory.

Methods raise RequestError when the record is unavailable, and WriteConflictError when somebody else wrote it since.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from skillbus.common.records import StoredRecord
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ListedTool, ToolRecord
from skillbus.indexer.domain.index.ports import Key

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


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A record and the revision that the next write must name."""

    record: ToolRecord | None
    """None if the tool was removed or its record is damaged. A new record must name the revision all the same."""
    revision: int


@dataclass(frozen=True, slots=True)
class ToolWrite:
    """A record to write over a revision, 0 for a tool that never existed."""

    record: ToolRecord
    over: int


class ToolCatalogue(Protocol):
    """Records of tools that are not skills."""

    async def load_tool(self, project: str, tool_id: str) -> StoredTool | None:
        """Return one record; None if the tool never existed."""

    async def load_tools(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, StoredTool]:
        """Return the records of the tools that exist or existed, by id."""

    async def save_tools(self, writes: Sequence[ToolWrite]) -> Sequence[int | None]:
        """Write records and return their revisions; None for a record that somebody else wrote since.

        After an error some of them may have been written.
        """

    async def delete_tool(self, record: ToolRecord, revision: int) -> None:
        """Delete a record that is still at `revision`."""

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        """Return True if nobody, in any process, wrote these tools after their revisions; False when in doubt."""

    def iterate_tools(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        """Yield the records of a project or of all projects, in no order."""


class ListedTools(Protocol):
    """List of all tools, including skills, kept in memory.

    A method sees every write that ended before it was called, in any process.
    """

    async def list_tools(self, project: str) -> Sequence[ListedTool]:
        """Return the tools of a project, ordered by id."""

    async def list_all_tools(self, project: str | None = None) -> Sequence[ListedTool]:
        """Return the tools of a project or of all projects, in no order."""

    async def find_tools(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ListedTool]:
        """Return the tools that exist and are not skills, by id."""
