"""MCP servers."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Response

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
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter, ProjectInQuery

_SERVERS: Final = "/api/mcp-servers"
_SERVER: Final = f"{_SERVERS}/{{name}}"
_EXAMPLE: Final[dict[str, object]] = {
    "name": "files",
    "url": "https://mcp.example.com/mcp",
    "headers": {"Authorization": "env:FILES_MCP_AUTHORIZATION"},
}
ServerInPath = Annotated[McpServerName, Path(description="Name of the MCP server.")]


@dataclass(frozen=True, slots=True)
class McpServerRoutes:
    """Handlers of MCP servers."""

    caller: BusCaller

    async def register_mcp_server(self, body: RegisterMcpServer, response: Response) -> McpServer:
        """Register an MCP server by `url`, add its tools to the catalogue, and follow its changes.

        A server with the same name is replaced. A `command` is refused: servers that skillbus starts are in the
        operator's file `mcp.json`. Values of `headers` are never returned; `env:NAME` and `file:PATH` are references
        that the agent service resolves. A server that does not reply is registered anyway,
        and the connection is retried: see `state`.
        """
        registered = await self.caller.call(REGISTER_MCP_SERVER, body)
        response.headers["Location"] = f"{_SERVERS}/{registered.name}"
        return registered

    async def list_mcp_servers(self, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServersListed:
        """List the MCP servers of a project with their states."""
        return await self.caller.call(LIST_MCP_SERVERS, ListMcpServers(project=project))

    async def get_mcp_server(self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServer:
        """Return one MCP server with its state."""
        return await self.caller.call(GET_MCP_SERVER, McpServerSelector(project=project, name=name))

    async def refresh_mcp_server(self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> McpServer:
        """List the tools of an MCP server again, now."""
        return await self.caller.call(REFRESH_MCP_SERVER, McpServerSelector(project=project, name=name))

    async def remove_mcp_server(
        self, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> McpServerRemoved:
        """Remove an MCP server, and its tools from the catalogue."""
        return await self.caller.call(REMOVE_MCP_SERVER, McpServerSelector(project=project, name=name))


def add_mcp_server_routes(router: DocumentedRouter, routes: McpServerRoutes) -> None:
    """Add the routes of MCP servers."""
    registered = REGISTER_MCP_SERVER.errors
    router.add("POST", _SERVERS, Role.ADMIN, routes.register_mcp_server, registered, status=201, example=_EXAMPLE)
    router.add("GET", _SERVERS, Role.READER, routes.list_mcp_servers, LIST_MCP_SERVERS.errors)
    router.add("GET", _SERVER, Role.READER, routes.get_mcp_server, GET_MCP_SERVER.errors)
    router.add("POST", f"{_SERVER}/refresh", Role.ADMIN, routes.refresh_mcp_server, REFRESH_MCP_SERVER.errors)
    router.add("DELETE", _SERVER, Role.ADMIN, routes.remove_mcp_server, REMOVE_MCP_SERVER.errors)
