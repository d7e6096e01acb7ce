"""Client for MCP servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.paths import MCP_SERVERS, join_path
from skillbus.contracts.agent.mcp_servers import McpServer, McpServerRemoved, McpServersListed, RegisterMcpServer

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_SERVER_S: Final = 330.0
"""Seconds to wait where an MCP server must answer first: its own timeout may be up to 300 s."""


@dataclass(frozen=True, slots=True)
class McpClient:
    """Each method is one request."""

    connection: ApiConnection

    async def register_server(self, server: RegisterMcpServer) -> McpServer:
        """Register an MCP server, or replace the one with its name."""
        body = server.model_dump(mode="json", exclude_unset=True) | self.connection.scope
        return await self.connection.request(McpServer, "POST", MCP_SERVERS, json=body, wait_s=_SERVER_S)

    async def list_servers(self) -> McpServersListed:
        return await self.connection.request(McpServersListed, "GET", MCP_SERVERS, params=self.connection.scope)

    async def get_server(self, name: str) -> McpServer:
        path = join_path(MCP_SERVERS, name)
        return await self.connection.request(McpServer, "GET", path, params=self.connection.scope)

    async def refresh_server(self, name: str) -> McpServer:
        """List an MCP server's tools again."""
        path = join_path(MCP_SERVERS, name, "refresh")
        return await self.connection.request(McpServer, "POST", path, params=self.connection.scope, wait_s=_SERVER_S)

    async def remove_server(self, name: str) -> McpServerRemoved:
        path = join_path(MCP_SERVERS, name)
        return await self.connection.request(McpServerRemoved, "DELETE", path, params=self.connection.scope)
