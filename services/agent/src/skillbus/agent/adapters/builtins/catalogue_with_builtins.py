"""A project that is given an MCP server's tools is given the builtin ones too."""

from collections.abc import Callable, Sequence

from skillbus.agent.adapters.bus_catalogue import BusCatalogue
from skillbus.common.bus.caller import Caller
from skillbus.contracts.indexer.tools import ToolDescription, ToolPut


class CatalogueWithBuiltins(BusCatalogue):
    """The catalogue that servers' tools go to; `want` hears of each project that gets some."""

    def __init__(self, caller: Caller, want: Callable[[str], None]) -> None:
        super().__init__(caller)
        self._want = want

    async def put(self, project: str, source: str, tools: Sequence[ToolDescription]) -> tuple[ToolPut, ...]:
        self._want(project)
        return await super().put(project, source, tools)
