"""A tool as the index knows it, whatever its kind: what its point is made from."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.tools import SKILLS_SOURCE, ToolState, ToolType
from skillbus.indexer.domain.catalogue.ports import Catalogue, ToolCatalogue
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.index.ports import Key

SKILL_ID_PREFIX: Final = "skill:"
_SKILL_ID: Final = re.compile(rf"{SKILL_ID_PREFIX}(?P<name>[a-z0-9]+(-[a-z0-9]+)*)")


@dataclass(frozen=True, slots=True)
class ToolEntry:
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


def entry_of(record: SkillRecord) -> ToolEntry | None:
    """The entry of a skill; None of one that is not to be found."""
    skill = record.skill
    if not skill.enabled:
        return None
    return ToolEntry(
        project=skill.project,
        tool_id=record.tool_id,
        tool_type=ToolType.SKILL,
        name=skill.name,
        description=skill.description,
        source=SKILLS_SOURCE,
        digest=_digest(skill.digest, skill.name, skill.description, *skill.tags),
        tags=skill.tags,
        metadata=skill_metadata(skill),
    )


def skill_metadata(skill: Skill) -> dict[str, JsonValue]:
    """What is told of a skill with each hit."""
    return {
        "version": skill.version,
        "digest": skill.digest,
        "license": skill.license,
        "actions": [entry.action for entry in skill.entry_points],
        "default_action": skill.default_action,
    }


def entry_of_tool(record: ToolRecord) -> ToolEntry | None:
    """The entry of a tool that is no skill; None of one that is not to be found."""
    if record.state is not ToolState.ACTIVE:
        return None
    tool = record.tool
    return ToolEntry(
        project=record.project,
        tool_id=tool.id,
        tool_type=tool.tool_type,
        name=tool.name,
        description=tool.description,
        source=tool.source,
        # The digest of a record from before the type `external` is that of another type.
        digest=f"{record.digest} external" if tool.tool_type is ToolType.EXTERNAL else record.digest,
        tags=tool.tags,
        parameters=tool.parameters,
        examples=tool.examples,
        provider=tool.provider,
        metadata=tool.metadata,
    )


def key_of(record: SkillRecord) -> Key:
    """Whose entry a skill's is."""
    return record.project, record.tool_id


def skill_name_of(tool_id: str) -> str | None:
    """The skill that an id is of; None of other tools."""
    found = _SKILL_ID.fullmatch(tool_id)
    return found["name"] if found else None


def _digest(*made_from: str) -> str:
    return hashlib.sha256(json.dumps(made_from, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CatalogueEntries:
    """The entries of all that the catalogue holds."""

    skills: Catalogue
    tools: ToolCatalogue

    async def check(self) -> None:
        """Without the catalogue the indexer does not start."""

    async def all(self, project: str | None = None) -> AsyncIterator[ToolEntry]:
        for record in await self.skills.all(project):
            if entry := entry_of(record):
                yield entry
        async for tool in self.tools.all(project):
            if entry := entry_of_tool(tool):
                yield entry

    async def of(self, keys: Sequence[Key]) -> Sequence[ToolEntry]:
        tools = defaultdict[str, list[str]](list)
        skills = list[tuple[str, str]]()
        for project, tool_id in keys:
            name = skill_name_of(tool_id)
            if name is None:
                tools[project].append(tool_id)
            else:
                skills.append((project, name))
        entries = list[ToolEntry | None]()
        if skills:
            entries += [entry_of(stored.record) for stored in (await self.skills.get_many(skills)).values()]
        for project, tool_ids in tools.items():
            found = (await self.tools.get_many(project, tool_ids)).values()
            entries += [entry_of_tool(stored.record) for stored in found if stored.record]
        return [entry for entry in entries if entry is not None]
