"""The catalogue of tools, over the bus."""

from collections.abc import AsyncIterator, Sequence
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
    """Implements `Catalogue` by requests to the indexer."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def put(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        results: list[ToolPut] = []
        for batch in cut_batches(map(measure_json, tools), max_items=MAX_TOOLS):
            request = PutTools(
                project=project,
                tools=tuple(tool.model_dump(mode="json", exclude_defaults=True) for tool in tools[batch]),
                source=source,
                review_changes=True,
            )
            results += (await self._caller.call(PUT_TOOLS, request)).results
        return tuple(results)

    async def remove(self, project: str, source: str, ids: Sequence[str] | None = None) -> int:
        if ids is None:
            return len((await self._caller.call(REMOVE_TOOLS, RemoveTools(project=project, source=source))).ids)
        removed = 0
        for at in range(0, len(ids), MAX_IDS):
            request = RemoveTools(project=project, source=source, ids=tuple(ids[at : at + MAX_IDS]))
            removed += len((await self._caller.call(REMOVE_TOOLS, request)).ids)
        return removed

    async def tools(self, project: str, source: str | None = None) -> tuple[ToolSummary, ...]:
        return tuple([tool async for tool in self._listed(project, source) if _is_of_servers(tool.source)])

    async def get(self, project: str, tool_id: str) -> CatalogueTool | None:
        try:
            return await self._caller.call(GET_TOOL, GetTool(project=project, id=tool_id))
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            raise

    async def _listed(self, project: str, source: str | None) -> AsyncIterator[ToolSummary]:
        after: str | None = None
        limit = _PAGE
        while True:
            request = ListTools(project=project, limit=limit, after=after, tool_types=_KINDS, source=source)
            try:
                page = await self._caller.call(LIST_TOOLS, request)
            except RequestError as error:
                if error.code is not ErrorCode.PAYLOAD_TOO_LARGE or limit == 1:
                    raise
                limit //= 2  # long names, or many tags
                continue
            for tool in page.tools:
                yield tool
            after = page.next
            if after is None:
                return


def _is_of_servers(source: str) -> bool:
    """Others import MCP tools too; those are not of servers that are registered."""
    return source == BUILTIN_SOURCE or source.startswith(MCP_SOURCE_PREFIX)
