"""Ports to the records of skills and tools, and to the list of tools kept in memory."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from skillbus.indexer.domain.catalogue.listed_tool import ListedTool
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.index.ports import Key


@dataclass(frozen=True, slots=True)
class Stored:
    """A record and its revision, which the next write must name."""

    record: SkillRecord
    revision: int


class Catalogue(Protocol):
    """The record of what is installed; the index is made from it and can be made again."""

    async def get(self, project: str, name: str) -> Stored | None:
        """One record."""
        ...

    async def get_many(self, names: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Stored]:
        """Those of them, by project and name, that are there."""
        ...

    async def put(self, record: SkillRecord, revision: int) -> Stored:
        """Write a record over `revision`, 0 for none. Raises RecordConflictError when another was written since."""
        ...

    async def delete(self, project: str, name: str, revision: int) -> None:
        """Remove a record. Raises RecordConflictError when it was written since `revision`."""
        ...

    async def removed_at(self, project: str, name: str) -> datetime | None:
        """When a skill that is not there was uninstalled; None when it was never installed."""
        ...

    async def all(self, project: str | None = None) -> Sequence[SkillRecord]:
        """Every record, or those of a project, ordered by project and name."""
        ...


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A record and its revision, which the next write must name."""

    record: ToolRecord | None
    """None of a tool that was removed, or whose record is damaged: its revision has to be named all the same."""
    revision: int


@dataclass(frozen=True, slots=True)
class ToolWrite:
    """A record to be written over a revision."""

    record: ToolRecord
    over: int
    """0 for a tool that never was there."""


class ToolCatalogue(Protocol):
    """Where records of tools are kept. Every method raises RequestError when that cannot be had."""

    async def get(self, project: str, tool_id: str) -> StoredTool | None:
        """One record; None of a tool that never was there."""
        ...

    async def get_many(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, StoredTool]:
        """Those of them that are or were there."""
        ...

    async def put(self, record: ToolRecord, revision: int) -> int:
        """Write a record over `revision`, 0 for none, and tell its own.

        Raises ToolConflictError when another was written since.
        """
        ...

    async def put_many(self, writes: Sequence[ToolWrite]) -> Sequence[int | None]:
        """Write records, each by itself, and tell their own revisions; None of one that another was written of since.

        What raises may have written some of them.
        """
        ...

    async def delete(self, record: ToolRecord, revision: int) -> None:
        """Remove a record. Raises ToolConflictError when it was written since `revision`."""
        ...

    async def none_since(self, revisions: Mapping[Key, int]) -> bool:
        """Whether nobody, here or elsewhere, has written any of these tools since its revision; False when in doubt."""
        ...

    async def count(self) -> int:
        """Records of all projects, damaged ones among them."""
        ...

    def all(self, project: str | None = None) -> AsyncIterator[ToolRecord]:
        """Every record, or those of a project, in no order."""
        ...


class ListedTools(Protocol):
    """All tools, skills among them, as the catalogue has them when it is asked.

    What was written before a method is called is seen by it, wherever it was written. Methods raise RequestError when
    that cannot be had.
    """

    async def in_order(self, project: str) -> Sequence[ListedTool]:
        """The tools of a project, ordered by id."""
        ...

    async def inactive(self, project: str | None) -> int:
        """How many tools of a project, or of all, are not to be found."""
        ...

    async def known(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ListedTool]:
        """Those of them that there are and that are no skills, by id."""
        ...
