"""Client for tools of any type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from skillbus.cli.client.http_api import MCP_S, TOOLS, join_path
from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.indexer.tools import CatalogueTool, ToolsListed, ToolsRemoved, ToolSummary
from skillbus.contracts.retriever.tool_search import ToolsFound

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_PAGE_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class ToolsClient:
    """Each method is one request, except `list_tools`."""

    connection: ApiConnection

    async def search_tools(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float | None = None,
        filters: Mapping[str, Sequence[str]] | None = None,
        explain: bool = False,
    ) -> ToolsFound:
        """Return the hits for a query, best first. `filters` may have `tool_types`, `tags` and `sources`."""
        body: dict[str, object] = {"query": query, "limit": limit, **self.connection.scope}
        body |= {name: list(values) for name, values in (filters or {}).items() if values}
        body |= {"threshold": threshold} if threshold is not None else {}
        body |= {"explain": True} if explain else {}
        return await self.connection.request(ToolsFound, "POST", f"{TOOLS}/search", json=body)

    async def list_tools(
        self, filters: Mapping[str, str | Sequence[str]], limit: int
    ) -> tuple[tuple[ToolSummary, ...], int]:
        """Return the first `limit` matching tools by id, and the number of all matching tools."""
        pages = await self.connection.list_pages(
            ToolsListed, TOOLS, filters, lambda page: (len(page.tools), page.next), page_size=_PAGE_SIZE, limit=limit
        )
        return tuple(tool for page in pages for tool in page.tools), pages[-1].total

    async def get_tool(self, tool_id: str) -> CatalogueTool:
        return await self.connection.request(
            CatalogueTool, "GET", join_path(TOOLS, tool_id), params=self.connection.scope
        )

    async def remove_tool(self, tool_id: str) -> None:
        await self.connection.send("DELETE", join_path(TOOLS, tool_id), params=self.connection.scope)

    async def remove_source(self, source: str) -> ToolsRemoved:
        """Remove all tools of a source from the catalogue."""
        params = {"source": source} | self.connection.scope
        return await self.connection.request(ToolsRemoved, "DELETE", TOOLS, params=params)

    async def accept_tool(self, tool_id: str, digest: str) -> CatalogueTool:
        """Accept a quarantined tool whose content has this digest."""
        path = join_path(TOOLS, tool_id, "accept")
        params, body = self.connection.scope, {"digest": digest}
        return await self.connection.request(CatalogueTool, "POST", path, params=params, json=body)

    async def enable_tool(self, tool_id: str, *, enabled: bool) -> CatalogueTool:
        path = join_path(TOOLS, tool_id, "enable" if enabled else "disable")
        return await self.connection.request(CatalogueTool, "POST", path, params=self.connection.scope)

    async def call_tool(self, tool_id: str, arguments: Mapping[str, JsonValue]) -> ToolCalled:
        path = join_path(TOOLS, tool_id, "call")
        params, body = self.connection.scope, {"arguments": dict(arguments)}
        return await self.connection.request(ToolCalled, "POST", path, params=params, json=body, wait_s=MCP_S)
