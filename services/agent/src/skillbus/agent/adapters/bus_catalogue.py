"""The catalogue of tools, by requests to the indexer."""

from collections.abc import Callable, Sequence
from typing import Final

from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches, measure_json
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    GET_TOOL,
    LIST_TOOLS,
    MAX_IDS,
    MAX_TOOLS,
    MCP_SOURCE_PREFIX,
    PUT_TOOLS,
    REMOVE_TOOLS,
    CatalogueTool,
    GetTool,
    ListTools,
    PutTools,
    RemoveTools,
    ToolDescription,
    ToolPut,
    ToolSummary,
    ToolType,
)

_PAGE: Final = 1_000
_KINDS: Final = (ToolType.MCP, ToolType.BUILTIN)


class BusCatalogue:
    """Implements `AgentCatalogue`. `on_put` receives each project that gets tools."""

    def __init__(self, caller: Caller, on_put: Callable[[str], None] = lambda _: None) -> None:
        self._caller = caller
        self._on_put = on_put

    async def put_tools(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        self._on_put(project)
        results: list[ToolPut] = []
        for batch in cut_batches(map(measure_json, tools), max_items=MAX_TOOLS):
            request = PutTools(
                project=project,
                tools=tuple(tool.model_dump(mode="json", exclude_defaults=True) for tool in tools[batch]),
                source=source,
                review_changes=source != BUILTIN_SOURCE,
            )
            results += (await self._caller.call(PUT_TOOLS, request)).results
        return tuple(results)

    async def remove_tools(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        if ids is None:
            return len((await self._caller.call(REMOVE_TOOLS, RemoveTools(project=project, source=source))).ids)
        removed = 0
        for at in range(0, len(ids), MAX_IDS):
            request = RemoveTools(project=project, source=source, ids=tuple(ids[at : at + MAX_IDS]))
            removed += len((await self._caller.call(REMOVE_TOOLS, request)).ids)
        return removed

    async def list_tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        tools = list[ToolSummary]()
        after: str | None = None
        while True:
            request = ListTools(project=project, limit=_PAGE, after=after, tool_types=_KINDS, source=source)
            page = await self._caller.call(LIST_TOOLS, request)
            for tool in page.tools:
                # Others import MCP tools too; those do not belong to registered servers.
                if tool.source == BUILTIN_SOURCE or tool.source.startswith(MCP_SOURCE_PREFIX):
                    tools.append(tool)
            after = page.next
            if after is None:
                return tuple(tools)

    async def get_tool(self, project: str, tool_id: str) -> CatalogueTool | None:
        try:
            return await self._caller.call(GET_TOOL, GetTool(project=project, id=tool_id), allow_local=True)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            raise
