"""Tools searched by the retriever, over the bus."""

from skillbus.common.bus.caller import Caller
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound


class BusToolFinder:
    """One request a search."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def find(self, request: SearchTools) -> ToolsFound:
        return await self._caller.call(SEARCH_TOOLS, request)
