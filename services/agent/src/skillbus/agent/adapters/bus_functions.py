"""Tools as functions for a model: found by the retriever, described by the indexer."""

import asyncio
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from skillbus.agent.domain.builtins.tool import ID_PREFIX, BuiltinTools
from skillbus.agent.domain.chat.ports import CatalogueSize
from skillbus.agent.domain.chat.toolbox import BYTES_A_TOKEN, ShownTool
from skillbus.common.background import end_tasks
from skillbus.common.bus.caller import Caller
from skillbus.common.tools.function_names import encode_name
from skillbus.common.tools.hit_functions import describe_hits, describe_tools
from skillbus.contracts.agent.chat import FunctionDefinition
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolReference
from skillbus.contracts.indexer.tool_functions import (
    DESCRIBE_TOOLS,
    MEASURE_TOOLS,
    MeasureTools,
    ToolFunction,
)
from skillbus.contracts.indexer.tools import GET_TOOL, GetTool, ToolState, ToolType
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools

_CALLABLE: Final = (ToolType.BUILTIN, ToolType.MCP, ToolType.SKILL)
_DESCRIPTION_CHARACTERS: Final = 1024
"""Longest description that OpenAI accepts."""
_MEASURED_EVERY_S: Final = 300.0
"""Age from which the size of a catalogue is measured again."""
_NO_ARGUMENTS: Final = {"type": "object", "properties": {}}

log = structlog.get_logger(__name__)


class BusFunctions:
    """Implements `FunctionFinder`."""

    def __init__(self, caller: Caller, builtins: BuiltinTools) -> None:
        self._caller = caller
        self._describe = partial(caller.call, DESCRIBE_TOOLS, allow_local=True)
        self._builtins = {tool.id: tool for tool in builtins.describe()}
        self._sizes: dict[str, CatalogueSize] = {}
        self._measured_at: dict[str, float] = {}
        self._measuring: set[asyncio.Task[None]] = set()

    async def find_functions(
        self, project: str, query: str, limit: int, tool_types: Sequence[ToolType]
    ) -> tuple[ShownTool, ...]:
        wanted = tuple(kind for kind in tool_types or _CALLABLE if kind in _CALLABLE)
        if not wanted:
            return ()
        # The nearest tools are shown even if none of them is likely: it is the model that decides.
        request = SearchTools(
            project=project, query=query, limit=limit, tool_types=wanted, threshold=0.0, functions=True
        )
        found = await self._caller.call(SEARCH_TOOLS, request, allow_local=True)
        described = await describe_hits(self._describe, project, found.results)
        tools = list[ShownTool]()
        for hit in found.results:
            if hit.callable:
                tools += map(_show_function, described[hit.id])
            elif hit.tool_type is ToolType.SKILL:
                tools.append(_show_instructions(hit.id, hit.description))
        return tuple(tools)

    async def describe_tools(self, project: str, ids: Sequence[str]) -> tuple[ShownTool, ...]:
        known = [one for one in ids if one.partition(":")[0] in _CALLABLE]
        described = await describe_tools(
            self._describe, project, (one for one in known if not one.startswith(ID_PREFIX))
        )
        tools = list[ShownTool]()
        for tool_id in known:
            functions = [function for function in described if function.id == tool_id]
            if tool_id in self._builtins:
                builtin = self._builtins[tool_id]
                functions = [ToolFunction(id=tool_id, description=builtin.description, parameters=builtin.parameters)]
            tools += map(_show_function, functions)
            if not functions and tool_id.startswith(f"{ToolType.SKILL}:"):
                tools += await self._describe_instructions(project, tool_id)
        return tuple(tools)

    def get_catalogue_size(self, project: str) -> CatalogueSize | None:
        if time.monotonic() - self._measured_at.get(project, -math.inf) > _MEASURED_EVERY_S:
            self._measured_at[project] = time.monotonic()
            measuring = asyncio.create_task(self._measure(project))
            self._measuring.add(measuring)
            measuring.add_done_callback(self._measuring.discard)
        return self._sizes.get(project)

    async def close(self) -> None:
        """End what is measured in the background."""
        await end_tasks(*self._measuring)

    async def _describe_instructions(self, project: str, skill_id: str) -> tuple[ShownTool, ...]:
        """Return a skill without functions, by its description; nothing if it is not active."""
        try:
            skill = await self._caller.call(GET_TOOL, GetTool(project=project, id=skill_id))
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return ()
        return (_show_instructions(skill_id, skill.tool.description),) if skill.state is ToolState.ACTIVE else ()

    async def _measure(self, project: str) -> None:
        try:
            measured = await self._caller.call(MEASURE_TOOLS, MeasureTools(project=project))
        except RequestError as error:
            log.warning("tools_not_measured", project=project, code=error.code)
            return
        self._sizes[project] = CatalogueSize(measured.tools, measured.definition_bytes // BYTES_A_TOKEN)


def _show_function(function: ToolFunction) -> ShownTool:
    name = encode_name(ToolReference(id=function.id, action=function.action))
    definition = FunctionDefinition(
        name=name,
        description=function.description[:_DESCRIPTION_CHARACTERS],
        parameters={**_NO_ARGUMENTS, **function.parameters},
    )
    return ShownTool(function=definition, id=function.id, action=function.action)


def _show_instructions(skill_id: str, description: str) -> ShownTool:
    name = encode_name(ToolReference(id=skill_id))
    definition = FunctionDefinition(name=name, description=description[:_DESCRIPTION_CHARACTERS])
    return ShownTool(function=definition, id=skill_id, instructions_only=True)
