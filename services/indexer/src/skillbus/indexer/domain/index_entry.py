"""A tool as the index knows it, whatever its kind: what its point is made from."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pydantic import JsonValue

from skillbus.contracts.tools import SKILLS_SOURCE, ToolType
from skillbus.indexer.domain.record import Catalogue, SkillRecord

Key = tuple[str, str]
"""Project and id of a tool."""

SKILL_ID_PREFIX: Final = "skill:"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A tool that is to be found."""

    project: str
    tool_id: str
    tool_type: ToolType
    name: str
    description: str
    source: str
    digest: str
    """Of all that the point is made from."""
    tags: tuple[str, ...] = ()
    parameters: Mapping[str, JsonValue] | None = None
    """JSON Schema of the arguments."""
    examples: tuple[str, ...] = ()
    provider: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Whose entry it is."""
        return self.project, self.tool_id


class Entries(Protocol):
    """What the index is made from, read from the catalogue each time."""

    def all(self, project: str | None = None) -> AsyncIterator[IndexEntry]:
        """Every tool that is to be found."""
        ...

    async def of(self, keys: Sequence[Key]) -> Sequence[IndexEntry]:
        """Those of them that are to be found."""
        ...


def entry_of(record: SkillRecord) -> IndexEntry | None:
    """The entry of a skill; None of one that is not to be found."""
    skill = record.skill
    if not skill.enabled:
        return None
    return IndexEntry(
        project=skill.project,
        tool_id=record.tool_id,
        tool_type=ToolType.SKILL,
        name=skill.name,
        description=skill.description,
        source=SKILLS_SOURCE,
        digest=_digest(skill.digest, skill.name, skill.description, *skill.tags),
        tags=skill.tags,
        metadata={
            "version": skill.version,
            "digest": skill.digest,
            "license": skill.license,
            "actions": [entry.action for entry in skill.entry_points],
            "default_action": skill.default_action,
        },
    )


def key_of(record: SkillRecord) -> Key:
    """Whose entry a skill's is."""
    return record.project, record.tool_id


def skill_name_of(tool_id: str) -> str | None:
    """The skill that an id is of; None of other tools."""
    return tool_id.removeprefix(SKILL_ID_PREFIX) if tool_id.startswith(SKILL_ID_PREFIX) else None


def _digest(*made_from: str) -> str:
    return hashlib.sha256(json.dumps(made_from, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CatalogueEntries:
    """The entries of all that the catalogue holds."""

    skills: Catalogue

    async def all(self, project: str | None = None) -> AsyncIterator[IndexEntry]:
        for record in await self.skills.all(project):
            if entry := entry_of(record):
                yield entry

    async def of(self, keys: Sequence[Key]) -> Sequence[IndexEntry]:
        entries = list[IndexEntry]()
        for project, tool_id in keys:
            name = skill_name_of(tool_id)
            stored = await self.skills.get(project, name) if name else None
            if stored and (entry := entry_of(stored.record)):
                entries.append(entry)
        return entries
