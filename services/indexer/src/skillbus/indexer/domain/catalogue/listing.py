"""Lists of skills and of tools of all types, page by page."""

from bisect import bisect_right
from dataclasses import dataclass

from skillbus.common.paging import cut_page, measure_json
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
from skillbus.indexer.domain.catalogue.entry import describe_skill
from skillbus.indexer.domain.catalogue.ports import ListedTools, SkillCatalogue, ToolCatalogue
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX, SkillRecord, parse_skill_id
from skillbus.indexer.domain.catalogue.tool import hash_description
from skillbus.indexer.domain.errors import ToolMissingError


def skill_to_catalogue_tool(record: SkillRecord) -> CatalogueTool:
    skill = record.skill
    schemas = {entry.action: entry.input_schema for entry in skill.entry_points}
    # Not validated: a skill was validated by the rules of its format, which allow more tags.
    tool = ToolDescription.model_construct(
        id=record.tool_id,
        name=skill.name,
        description=skill.description,
        tool_type=ToolType.SKILL,
        tags=skill.tags,
        parameters=schemas.get(skill.default_action or ""),
        source=SKILLS_SOURCE,
        metadata=describe_skill(skill),
    )
    return CatalogueTool.model_construct(
        project=skill.project,
        tool=tool,
        state=ToolState.ACTIVE if skill.enabled else ToolState.DISABLED,
        digest=hash_description(tool),
        findings=tuple(ToolFinding(code=w.code, message=w.message, where=w.where) for w in skill.warnings),
        requires_approval=skill.requires_approval,
        approval_mark=skill.requires_approval or None,
        created_at=skill.installed_at,
        updated_at=skill.updated_at,
    )


@dataclass(frozen=True, slots=True)
class CatalogueListing:
    """Reads the catalogue for callers. Methods raise RequestError when it is unavailable."""

    skills: SkillCatalogue
    tools: ToolCatalogue
    listed: ListedTools

    async def load_catalogue_tool(self, project: str, tool_id: str) -> CatalogueTool:
        """Return one tool or skill. Raises ToolMissingError."""
        if (name := parse_skill_id(tool_id)) is not None:
            skill = await self.skills.load_skill(project, name)
            if skill is not None:
                return skill_to_catalogue_tool(skill.record)
        elif (stored := await self.tools.load_record((project, tool_id))) and stored.record:
            return stored.record.to_catalogue_tool()
        raise ToolMissingError(project, tool_id)

    async def list_tools(self, request: ListTools) -> ToolsListed:
        """Return a page of tools, shorter than its limit if it would not fit a message.

        A filter by text reads all records of the project for each page: tenths of a second for ten thousand tools.
        """
        wanted = [tool for tool in await self.listed.list_project(request.project) if tool.matches(request)]
        if request.text is not None:
            text = request.text.casefold()
            ids = {
                skill.tool_id
                for skill in await self.skills.load_all(request.project)
                if text in f"{skill.name}\n{skill.skill.description}".casefold()
            }
            async for record in self.tools.iterate_records(request.project):
                if text in f"{record.tool.name}\n{record.tool.description}".casefold():
                    ids.add(record.id)
            wanted = [tool for tool in wanted if tool.id in ids]
        start = 0 if request.after is None else bisect_right(wanted, request.after, key=lambda tool: tool.id)
        page = cut_page(wanted[start : start + request.limit], lambda tool: len(tool.summary))
        return ToolsListed(
            tools=tuple(ToolSummary.model_validate_json(tool.summary) for tool in page),
            total=len(wanted),
            next=page[-1].id if len(wanted) > start + len(page) else None,
        )

    async def list_skills(self, request: ListSkills) -> SkillsListed:
        """Return a page of skills, ordered by name, shorter than its limit if it would not fit a message."""
        names = await self._find_skills(request)
        start = 0 if request.after is None else bisect_right(names, request.after)
        keys = [(request.project, name) for name in names[start : start + request.limit]]
        stored = await self.skills.load_skills(keys)
        skills = [stored[key].record.skill for key in keys if key in stored]
        page: tuple[Skill, ...] = tuple(cut_page(skills, measure_json))
        is_last = len(page) == len(skills) and start + len(keys) >= len(names)
        return SkillsListed(skills=page, total=len(names), next=None if is_last or not page else page[-1].name)

    async def _find_skills(self, request: ListSkills) -> list[str]:
        """Return the names of the skills that match a request, in order."""
        if request.text is not None:
            text = request.text.casefold()
            records = await self.skills.load_all(request.project)
            return [
                record.name
                for record in records
                if text in f"{record.name}\n{record.skill.description}".casefold()
                and request.enabled in {None, record.skill.enabled}
                and (request.tag is None or request.tag.casefold() in map(str.casefold, record.skill.tags))
            ]
        return [
            tool.id.removeprefix(SKILL_ID_PREFIX)
            for tool in await self.listed.list_project(request.project)
            if tool.tool_type is ToolType.SKILL
            and request.enabled in {None, tool.state is ToolState.ACTIVE}
            and (request.tag is None or request.tag.casefold() in tool.tags)
        ]
