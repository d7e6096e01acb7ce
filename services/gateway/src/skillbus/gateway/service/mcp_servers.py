"""MCP servers whose tools are in the catalogue."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Query, Response

from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    ListMcpServers,
    McpServer,
    McpServerName,
    McpServerRemoved,
    McpServerSelector,
    McpServersListed,
    RegisterMcpServer,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Project
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_SERVERS: Final = "/api/mcp-servers"
_SERVER: Final = f"{_SERVERS}/{{name}}"
_EXAMPLE: Final[dict[str, object]] = {
    "name": "files",
    "url": "https://mcp.example.com/mcp",
    "headers": {"Authorization": "env:FILES_MCP_AUTHORIZATION"},
}
ServerInPath = Annotated[McpServerName, Path()]
ProjectInQuery = Annotated[Project, Query()]


@dataclass(frozen=True, slots=True)
class McpServerRoutes:
    """The handlers, over what they need."""

    caller: BusCaller

    async def register_mcp_server(self, body: RegisterMcpServer, response: Response) -> McpServer:
        """Register an MCP server by `url` or `command`: its tools are listed, put into the catalogue, and followed.

        One of that name is replaced. Values of `headers` and `env` are never told again; `env:NAME` and `file:PATH`, of
        the agent, stand for what is there. A server that does not answer is registered and tried again: see `state`.
        """
        registered = await self.caller.call(REGISTER_MCP_SERVER, body)
        response.headers["Location"] = f"{_SERVERS}/{registered.name}"
        return registered

    async def list_mcp_servers(self, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServersListed:
        """The MCP servers of a project, and how they are."""
        return await self.caller.call(LIST_MCP_SERVERS, ListMcpServers(project=project))

    async def get_mcp_server(self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServer:
        """One MCP server, and how it is."""
        return await self.caller.call(GET_MCP_SERVER, McpServerSelector(project=project, name=name))

    async def refresh_mcp_server(self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServer:
        """List an MCP server's tools again, now."""
        return await self.caller.call(REFRESH_MCP_SERVER, McpServerSelector(project=project, name=name))

    async def remove_mcp_server(
        self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> McpServerRemoved:
        """Remove an MCP server, and its tools from the catalogue."""
        return await self.caller.call(REMOVE_MCP_SERVER, McpServerSelector(project=project, name=name))


def add_mcp_server_routes(to: DocumentedRouter, routes: McpServerRoutes) -> None:
    """Put them under their paths."""
    errors = (*REGISTER_MCP_SERVER.errors, *WITH_BODY)
    to.add("POST", _SERVERS, routes.register_mcp_server, errors, status=201, example=_EXAMPLE)
    to.add("GET", _SERVERS, routes.list_mcp_servers, LIST_MCP_SERVERS.errors)
    to.add("GET", _SERVER, routes.get_mcp_server, GET_MCP_SERVER.errors)
    to.add("POST", f"{_SERVER}/refresh", routes.refresh_mcp_server, REFRESH_MCP_SERVER.errors)
    to.add("DELETE", _SERVER, routes.remove_mcp_server, REMOVE_MCP_SERVER.errors)
