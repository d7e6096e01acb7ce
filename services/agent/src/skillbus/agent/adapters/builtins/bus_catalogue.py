"""The catalogue, as the indexer keeps it, over the bus."""

from collections.abc import Iterable, Sequence

from skillbus.common.bus.caller import Caller
from skillbus.contracts.indexer.tools import (
    BUILTIN_SOURCE,
    LIST_TOOLS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    ListTools,
    PutTools,
    RemoveTools,
    ToolDescription,
    ToolPut,
)


class BusBuiltinCatalogue:
    """The port `BuiltinCatalogue`: a handful of tools, so one page holds them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def put(self, project: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        described = tuple(tool.model_dump(mode="json") for tool in tools)
        request = PutTools(project=project, tools=described, source=BUILTIN_SOURCE, review_changes=False)
        return (await self._caller.call(PUT_TOOLS, request)).results

    async def ids(self, project: str) -> frozenset[str]:
        request = ListTools(project=project, source=BUILTIN_SOURCE, limit=1000)
        return frozenset(tool.id for tool in (await self._caller.call(LIST_TOOLS, request)).tools)

    async def remove(self, project: str, ids: Iterable[str]) -> None:
        await self._caller.call(REMOVE_TOOLS, RemoveTools(project=project, ids=tuple(ids), source=BUILTIN_SOURCE))
