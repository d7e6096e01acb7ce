"""Pages of MCP servers: list with registration, and one server with its tools and what waits in quarantine."""

import asyncio
from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response

from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    ListMcpServers,
    McpServerSelector,
    McpServerSource,
)
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tools import (
    GET_TOOL,
    LIST_TOOLS,
    MCP_SOURCE_PREFIX,
    CatalogueTool,
    GetTool,
    ListTools,
    ToolState,
)
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.mcp_servers import ServerInPath
from skillbus.gateway.service.pages.part_answers import get_part
from skillbus.gateway.service.pages.rendering import render_page

SERVERS_PAGE: Final = "/mcp-servers"
_TOOLS: Final = 200
_QUARANTINED: Final = 20
"""Most quarantined tools that are shown with their differences."""


@dataclass(frozen=True, slots=True)
class ServerPages:
    """Handlers of the pages of MCP servers."""

    caller: BusCaller

    async def show_list(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the servers with their states, and the form that registers one."""
        context = {
            "listed": await self.caller.call(LIST_MCP_SERVERS, ListMcpServers(project=project)),
            "can_administrate": get_caller(request.scope).role.includes(Role.ADMIN),
        }
        return render_page(request, "servers/list.html", context, project=project)

    async def show_server(
        self, request: Request, name: ServerInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a server, what it changed, and its tools."""
        source = f"{MCP_SOURCE_PREFIX}{name}"
        server, tools, waiting = await asyncio.gather(
            self.caller.call(GET_MCP_SERVER, McpServerSelector(project=project, name=name)),
            get_part(self.caller.call(LIST_TOOLS, ListTools(project=project, source=source, limit=_TOOLS))),
            get_part(self._get_quarantined(project, source)),
        )
        context = {
            "server": server,
            "source": source,
            "tools": tools,
            "waiting": waiting,
            "is_of_file": server.source is McpServerSource.FILE,
            "can_administrate": get_caller(request.scope).role.includes(Role.ADMIN),
        }
        return render_page(request, "servers/server.html", context, project=project)

    async def _get_quarantined(self, project: str, source: str) -> list[CatalogueTool]:
        wanted = ListTools(project=project, source=source, states=(ToolState.QUARANTINED,), limit=_QUARANTINED)
        listed = await self.caller.call(LIST_TOOLS, wanted)
        asked = (self.caller.call(GET_TOOL, GetTool(project=project, id=tool.id)) for tool in listed.tools)
        return list(await asyncio.gather(*asked))
