"""Clients for tools of any type, and for MCP servers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from skillbus.cli.client.http_api import IMPORT_S, MCP_SERVERS, NDJSON, TOOLS, join_path
from skillbus.contracts.agent.mcp_servers import McpServer, McpServerRemoved, McpServersListed, RegisterMcpServer
from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.http import ToolsImported
from skillbus.contracts.indexer.tools import CatalogueTool, ToolsListed, ToolsRemoved, ToolSummary
from skillbus.contracts.retriever.tool_search import ToolsFound

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_PAGE_SIZE: Final = 1000
_MCP_S: Final = 330.0
"""Seconds to wait where an MCP server must answer first: its own timeout may be up to 300 s."""


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

    async def import_tools(self, descriptions: AsyncIterable[bytes], params: Mapping[str, str]) -> ToolsImported:
        """Import NDJSON or a JSON array. The reply counts all outcomes and lists only problems."""
        return await self.connection.request(
            ToolsImported,
            "PUT",
            TOOLS,
            params={"only": "problems", **params, **self.connection.scope},
            content=descriptions,
            headers={b"Content-Type": NDJSON},
            wait_s=IMPORT_S,
        )

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
        return await self.connection.request(ToolCalled, "POST", path, params=params, json=body, wait_s=_MCP_S)


@dataclass(frozen=True, slots=True)
class McpClient:
    """Each method is one request."""

    connection: ApiConnection

    async def register_server(self, server: RegisterMcpServer) -> McpServer:
        """Register an MCP server, or replace the one with its name."""
        body = server.model_dump(mode="json", exclude_unset=True) | self.connection.scope
        return await self.connection.request(McpServer, "POST", MCP_SERVERS, json=body, wait_s=_MCP_S)

    async def list_servers(self) -> McpServersListed:
        return await self.connection.request(McpServersListed, "GET", MCP_SERVERS, params=self.connection.scope)

    async def get_server(self, name: str) -> McpServer:
        path = join_path(MCP_SERVERS, name)
        return await self.connection.request(McpServer, "GET", path, params=self.connection.scope)

    async def refresh_server(self, name: str) -> McpServer:
        """List an MCP server's tools again."""
        path = join_path(MCP_SERVERS, name, "refresh")
        return await self.connection.request(McpServer, "POST", path, params=self.connection.scope, wait_s=_MCP_S)

    async def remove_server(self, name: str) -> McpServerRemoved:
        path = join_path(MCP_SERVERS, name)
        return await self.connection.request(McpServerRemoved, "DELETE", path, params=self.connection.scope)
