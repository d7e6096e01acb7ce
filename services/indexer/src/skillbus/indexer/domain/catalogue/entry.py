"""Entries of the tool index: skills and other tools in the form that points are made from."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.tool_functions import ToolFunction
from skillbus.contracts.indexer.tools import SKILLS_SOURCE, ToolDescription, ToolState, ToolType
from skillbus.indexer.domain.catalogue.functions import make_skill_functions, make_tool_function
from skillbus.indexer.domain.catalogue.ports import SkillCatalogue, ToolCatalogue
from skillbus.indexer.domain.catalogue.skill import SkillRecord, parse_skill_id
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.index.ports import Key


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool that search should find."""

    project: str
    tool_id: str
    tool_type: ToolType
    name: str
    description: str
    source: str
    digest: str
    """Digest of everything that the point is made from."""
    tags: tuple[str, ...] = ()
    parameters: Mapping[str, JsonValue] | None = None
    """JSON Schema of the arguments."""
    examples: tuple[str, ...] = ()
    provider: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    functions: tuple[ToolFunction, ...] = ()
    """Functions that a model can call. Empty for tools that cannot be called."""

    @property
    def key(self) -> Key:
        return self.project, self.tool_id


def make_skill_entry(record: SkillRecord) -> ToolEntry | None:
    """Return the entry of a skill, or None if search should not find it."""
    skill = record.skill
    if not skill.enabled:
        return None
    approval = ("requires approval",) if skill.requires_approval else ()
    made_from = (skill.digest, skill.name, skill.description, *skill.tags, *approval)
    return ToolEntry(
        project=skill.project,
        tool_id=record.tool_id,
        tool_type=ToolType.SKILL,
        name=skill.name,
        description=skill.description,
        source=SKILLS_SOURCE,
        digest=hashlib.sha256(json.dumps(made_from, ensure_ascii=False).encode()).hexdigest(),
        tags=skill.tags,
        metadata=describe_skill(skill),
        functions=make_skill_functions(skill),
    )


def describe_skill(skill: Skill) -> dict[str, JsonValue]:
    """Return the metadata that every hit of a skill carries."""
    return {
        "version": skill.version,
        "digest": skill.digest,
        "license": skill.license,
        "actions": [entry.action for entry in skill.entry_points],
        "default_action": skill.default_action,
    }


def make_tool_entry(record: ToolRecord) -> ToolEntry | None:
    """Return the entry of a tool that is not a skill, or None if search should not find it."""
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
        digest=digest_entry(tool, record.digest, record.approval_mark),
        tags=tool.tags,
        parameters=tool.parameters,
        examples=tool.examples,
        provider=tool.provider,
        metadata=tool.metadata,
        functions=() if tool.tool_type is ToolType.EXTERNAL else (make_tool_function(record),),
    )


def digest_entry(tool: ToolDescription, digest: str, approval_mark: bool | None = None) -> str:
    """Return the digest of a tool's entry. `digest` is that of its record.

    The record of an external tool from before that type has the digest of another type, so its point must change.
    """
    if tool.tool_type is ToolType.EXTERNAL:
        return f"{digest} external"
    return digest if approval_mark is None else f"{digest} approval {approval_mark}"


@dataclass(frozen=True, slots=True)
class CatalogueEntries:
    """Entries of everything in the catalogue."""

    skills: SkillCatalogue
    tools: ToolCatalogue

    async def check_available(self) -> None:
        """Do nothing: without the catalogue the indexer does not start."""

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[ToolEntry]:
        for record in await self.skills.load_all(project):
            if entry := make_skill_entry(record):
                yield entry
        async for tool in self.tools.iterate_records(project):
            if entry := make_tool_entry(tool):
                yield entry

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[ToolEntry]:
        tools = list[Key]()
        skills = list[tuple[str, str]]()
        for project, tool_id in keys:
            name = parse_skill_id(tool_id)
            if name is None:
                tools.append((project, tool_id))
            else:
                skills.append((project, name))
        entries = list[ToolEntry | None]()
        if skills:
            stored_skills = await self.skills.load_skills(skills)
            entries += [make_skill_entry(stored.record) for stored in stored_skills.values()]
        if tools:
            stored_tools = await self.tools.load_records(tools)
            entries += [make_tool_entry(stored.record) for stored in stored_tools.values() if stored.record]
        return [entry for entry in entries if entry is not None]
