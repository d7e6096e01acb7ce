"""The catalogue as a list of tools of all kinds, skills among them."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import ListSkills, SkillsListed
from skillbus.contracts.indexer.tools import (
    SKILLS_SOURCE,
    CatalogueTool,
    ListTools,
    ToolDescription,
    ToolFinding,
    ToolsListed,
    ToolState,
    ToolSummary,
    ToolType,
)
from skillbus.indexer.domain.catalogue.entry import skill_metadata, skill_name_of
from skillbus.indexer.domain.catalogue.listed_tool import ListedTool
from skillbus.indexer.domain.catalogue.ports import Catalogue, ListedTools, ToolCatalogue
from skillbus.indexer.domain.catalogue.skill import PAGE_BYTES, SkillRecord, page_of
from skillbus.indexer.domain.catalogue.tool import digest_of
from skillbus.indexer.domain.errors import ToolMissingError


def tool_of_skill(record: SkillRecord) -> CatalogueTool:
    """A skill as a tool of the catalogue."""
    skill = record.skill
    schemas = {entry.action: entry.input_schema for entry in skill.entry_points}
    # Not validated: a skill was, by the rules of its own format, which allow more tags.
    tool = ToolDescription.model_construct(
        id=record.tool_id,
        name=skill.name,
        description=skill.description,
        tool_type=ToolType.SKILL,
        tags=skill.tags,
        parameters=schemas.get(skill.default_action or ""),
        source=SKILLS_SOURCE,
        metadata=skill_metadata(skill),
    )
    return CatalogueTool.model_construct(
        project=skill.project,
        tool=tool,
        state=ToolState.ACTIVE if skill.enabled else ToolState.DISABLED,
        digest=digest_of(tool),
        findings=tuple(ToolFinding(code=w.code, message=w.message, where=w.where) for w in skill.warnings),
        created_at=skill.installed_at,
        updated_at=skill.updated_at,
    )


@dataclass(frozen=True, slots=True)
class ToolListing:
    """Tells what is in the catalogue. Methods raise RequestError when it cannot be had."""

    skills: Catalogue
    tools: ToolCatalogue
    listed: ListedTools

    async def get(self, project: str, tool_id: str) -> CatalogueTool:
        """One tool. Raises ToolMissingError."""
        if (name := skill_name_of(tool_id)) is not None:
            skill = await self.skills.get(project, name)
            if skill is not None:
                return tool_of_skill(skill.record)
        elif (stored := await self.tools.get(project, tool_id)) and stored.record:
            return stored.record.shown()
        raise ToolMissingError(project, tool_id)

    async def page(self, request: ListTools) -> ToolsListed:
        """A page, shorter than its limit when it would not fit a message.

        A `text` is looked for in the records, all of the project for each page: tenths of a second of ten thousand.
        """
        wanted = [tool for tool in await self.listed.in_order(request.project) if tool.fits(request)]
        if request.text is not None:
            ids = await self._ids_with(request.text, request.project)
            wanted = [tool for tool in wanted if tool.id in ids]
        start = 0 if request.after is None else bisect_right(wanted, request.after, key=lambda tool: tool.id)
        page = _that_fits(wanted[start : start + request.limit])
        more = len(wanted) > start + len(page)
        return ToolsListed(tools=page, total=len(wanted), next=page[-1].id if more else None)

    async def _ids_with(self, text: str, project: str) -> frozenset[str]:
        return frozenset([id_ async for id_, said in self._texts(project) if text.casefold() in said.casefold()])

    async def _texts(self, project: str) -> AsyncIterator[tuple[str, str]]:
        """Ids, and what is said of the tools."""
        for skill in await self.skills.all(project):
            yield skill.tool_id, f"{skill.name}\n{skill.skill.description}"
        async for record in self.tools.all(project):
            yield record.id, f"{record.tool.name}\n{record.tool.description}"


def _that_fits(tools: Sequence[ListedTool]) -> tuple[ToolSummary, ...]:
    """As many as fit a message; one does."""
    left, page = PAGE_BYTES, list[ToolSummary]()
    for tool in tools:
        left -= len(tool.summary)
        if page and left < 0:
            break
        page.append(ToolSummary.model_validate_json(tool.summary))
    return tuple(page)


def list_page(records: Sequence[SkillRecord], request: ListSkills) -> SkillsListed:
    """A page of skills that are ordered by name, shorter than its limit when it would not fit a message."""
    skills = [record.skill for record in records if _is_wanted(record.skill, request)]
    rest = [skill for skill in skills if request.after is None or skill.name > request.after]
    page = page_of(rest, request.limit)
    return SkillsListed(skills=page, total=len(skills), next=page[-1].name if len(rest) > len(page) and page else None)


def _is_wanted(skill: Skill, request: ListSkills) -> bool:
    if request.enabled is not None and skill.enabled != request.enabled:
        return False
    if request.tag is not None and request.tag.casefold() not in {tag.casefold() for tag in skill.tags}:
        return False
    return request.text is None or request.text.casefold() in f"{skill.name}\n{skill.description}".casefold()
