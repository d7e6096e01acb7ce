"""The catalogue as a list of tools of all kinds, skills among them."""

import heapq
from collections.abc import AsyncIterator
from dataclasses import dataclass

from skillbus.contracts.tools import (
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
from skillbus.indexer.domain.errors import ToolMissingError
from skillbus.indexer.domain.index_entry import skill_metadata, skill_name_of
from skillbus.indexer.domain.record import PAGE_BYTES, Catalogue, SkillRecord
from skillbus.indexer.domain.tool_record import ToolCatalogue, digest_of

_GIST_CHARS = 200


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
    """Reads the whole catalogue. Methods raise RequestError when it cannot be had."""

    skills: Catalogue
    tools: ToolCatalogue

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
        """A page, shorter than its limit when it would not fit a message; no more of the catalogue is held than that.

        Each page reads all of the project: ten thousand tools take some tenths of a second.
        """
        total, rest = 0, list[ToolSummary]()
        async for tool in self._all(request.project):
            if not _is_wanted(tool, request):
                continue
            total += 1
            if request.after is None or tool.tool.id > request.after:
                rest.append(_summary(tool))
            if len(rest) > 2 * request.limit + 1:
                rest = heapq.nsmallest(request.limit + 1, rest, key=lambda summary: summary.id)
        rest.sort(key=lambda summary: summary.id)
        page = _that_fits(rest[: request.limit])
        return ToolsListed(tools=page, total=total, next=page[-1].id if len(rest) > len(page) else None)

    async def _all(self, project: str) -> AsyncIterator[CatalogueTool]:
        for skill in await self.skills.all(project):
            yield tool_of_skill(skill)
        async for record in self.tools.all(project):
            yield record.shown()


def _is_wanted(tool: CatalogueTool, request: ListTools) -> bool:
    described = tool.tool
    if request.tool_types and described.tool_type not in request.tool_types:
        return False
    if request.states and tool.state not in request.states:
        return False
    if request.source not in {None, described.source}:
        return False
    if request.tag is not None and request.tag.casefold() not in {tag.casefold() for tag in described.tags}:
        return False
    return request.text is None or request.text.casefold() in f"{described.name}\n{described.description}".casefold()


def _summary(tool: CatalogueTool) -> ToolSummary:
    described = tool.tool
    return ToolSummary(
        id=described.id,
        name=described.name,
        description=described.description[:_GIST_CHARS],
        tool_type=described.tool_type,
        source=described.source,
        tags=described.tags,
        state=tool.state,
        findings=len(tool.findings),
        updated_at=tool.updated_at,
    )


def _that_fits(summaries: list[ToolSummary]) -> tuple[ToolSummary, ...]:
    """As many as fit a message; one does."""
    left, page = PAGE_BYTES, list[ToolSummary]()
    for summary in summaries:
        left -= len(summary.model_dump_json().encode())
        if page and left < 0:
            break
        page.append(summary)
    return tuple(page)
