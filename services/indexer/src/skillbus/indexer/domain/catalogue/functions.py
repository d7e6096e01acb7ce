"""Tools and skills as functions that a model can call."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.tool_functions import (
    DescribeTools,
    MeasureTools,
    ToolFunction,
    ToolsDescribed,
    ToolsMeasured,
)
from skillbus.contracts.indexer.tools import ToolState, ToolType
from skillbus.indexer.domain.catalogue.ports import SkillCatalogue, ToolCatalogue
from skillbus.indexer.domain.catalogue.skill import SKILL_ID_PREFIX, parse_skill_id
from skillbus.indexer.domain.catalogue.tool import ToolRecord

ToolFunctions = tuple[ToolFunction, ...]
"""Functions of one tool."""


@dataclass(frozen=True, slots=True)
class ToolDescriber:
    """Reads functions from the catalogue."""

    skills: SkillCatalogue
    tools: ToolCatalogue

    async def describe_tools(self, request: DescribeTools) -> ToolsDescribed:
        """Return the functions of the active tools, as many as fit a message. Raises RequestError."""
        skills, others = await asyncio.gather(
            self._describe_skills(request.project, [tool_id for tool_id in request.ids if parse_skill_id(tool_id)]),
            self._describe_others(request.project, [tool_id for tool_id in request.ids if not parse_skill_id(tool_id)]),
        )
        functions = {**skills, **others}
        found = [functions.get(tool_id, ()) for tool_id in request.ids]
        page = cut_page(found, lambda described: sum(map(measure_json, described)))
        return ToolsDescribed(
            functions=tuple(function for described in page for function in described),
            left_out=request.ids[len(page) :],
        )

    async def measure_tools(self, request: MeasureTools) -> ToolsMeasured:
        """Return the size of all functions of a project. It reads all records: tenths of a second for ten thousand."""
        tools = size_bytes = 0
        skills = [record.skill for record in await self.skills.load_all(request.project)]
        for functions in map(make_skill_functions, (skill for skill in skills if skill.enabled)):
            tools += bool(functions)
            size_bytes += sum(map(measure_json, functions))
        async for record in self.tools.iterate_records(request.project):
            if record.state is ToolState.ACTIVE and record.tool.tool_type is not ToolType.EXTERNAL:
                tools += 1
                size_bytes += measure_json(make_tool_function(record))
        return ToolsMeasured(tools=tools, definition_bytes=size_bytes)

    async def _describe_skills(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ToolFunctions]:
        if not tool_ids:
            return {}
        stored = await self.skills.load_skills([(project, parse_skill_id(tool_id) or "") for tool_id in tool_ids])
        skills = [one.record.skill for one in stored.values()]
        return {f"{SKILL_ID_PREFIX}{skill.name}": make_skill_functions(skill) for skill in skills if skill.enabled}

    async def _describe_others(self, project: str, tool_ids: Sequence[str]) -> Mapping[str, ToolFunctions]:
        if not tool_ids:
            return {}
        stored = await self.tools.load_records([(project, tool_id) for tool_id in tool_ids])
        records = [one.record for one in stored.values() if one.record is not None]
        return {record.id: (make_tool_function(record),) for record in records if record.state is ToolState.ACTIVE}


def make_tool_function(record: ToolRecord) -> ToolFunction:
    """Return the function of a tool that is not a skill."""
    tool = record.tool
    # Not validated: the record was.
    return ToolFunction.model_construct(
        id=tool.id,
        description=tool.description,
        parameters=tool.parameters or {},
        requires_approval=record.requires_approval,
    )


def make_skill_functions(skill: Skill) -> ToolFunctions:
    """Return one function for each action of a skill."""
    functions = list[ToolFunction]()
    for entry in skill.entry_points:
        is_default = entry.action == skill.default_action
        about = f"{skill.description}\n{entry.description}" if entry.description else skill.description
        if not is_default and not entry.description:
            about = f"{skill.description}\nAction: {entry.action}"
        functions.append(
            ToolFunction(
                id=f"{SKILL_ID_PREFIX}{skill.name}",
                action=None if is_default else entry.action,
                description=about,
                parameters=entry.input_schema or {},
                requires_approval=skill.requires_approval,
            )
        )
    return tuple(functions)
