"""The agent's handlers: decode, one call of the domain, encode."""

import time
from dataclasses import dataclass
from typing import Final

import structlog

from skillbus.agent.domain.auditing import Auditor
from skillbus.agent.domain.builtins_port import Builtins
from skillbus.agent.domain.calling import Caller
from skillbus.agent.domain.registered import ServerKey
from skillbus.agent.domain.servers import Servers
from skillbus.common.bus import headers
from skillbus.contracts.agent.mcp_servers import (
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    ListMcpServers,
    McpServer,
    McpServerRemoved,
    McpServerSelector,
    McpServersListed,
    RegisterMcpServer,
)
from skillbus.contracts.agent.tool_calls import (
    AUDIT_CALLABLE,
    CALL_TOOL,
    AuditCallable,
    BuiltinsListed,
    CallableAudited,
    CallTool,
    ToolCalled,
)
from skillbus.contracts.message import Empty

_TO_REPLY_S: Final = 1.0
"""Kept back from the caller's time, so that it is told how things are rather than nothing."""
_ANSWERS: Final = 2
"""A server's first listing takes as many of its `timeout_s` at most: for the session, and for the list."""
_ROOM_S: Final = 15.0
"""For the catalogue to take what is listed, or for the process of a server that failed to end."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentHandlers:
    """Answers the agent's requests."""

    servers: Servers
    builtins: Builtins
    caller: Caller
    auditor: Auditor

    async def register_mcp_server(self, request: RegisterMcpServer) -> McpServer:
        """Register a server, and say how its first listing went if it ends in time."""
        within_s = min(_left_s(REGISTER_MCP_SERVER.timeout_s), request.timeout_s * _ANSWERS + _ROOM_S)
        server = (await self.servers.register(request, within_s)).told()
        log.info("mcp_server_registered", server=server.name, state=server.state, tools=server.tools)
        return server

    async def list_mcp_servers(self, request: ListMcpServers) -> McpServersListed:
        """The servers of a project."""
        servers = await self.servers.all_of(request.project)
        return McpServersListed(servers=tuple(server.told(briefly=True) for server in servers))

    async def get_mcp_server(self, request: McpServerSelector) -> McpServer:
        """One server."""
        return (await self.servers.get(_key(request))).told()

    async def refresh_mcp_server(self, request: McpServerSelector) -> McpServer:
        """List a server again."""
        return (await self.servers.refresh(_key(request), _left_s(REFRESH_MCP_SERVER.timeout_s))).told()

    async def remove_mcp_server(self, request: McpServerSelector) -> McpServerRemoved:
        """Remove a server and its tools."""
        removed = await self.servers.remove(_key(request))
        log.info("mcp_server_removed", server=request.name, tools=removed)
        return McpServerRemoved(name=request.name, tools=removed)

    async def list_builtins(self, _: Empty) -> BuiltinsListed:
        """The builtin tools."""
        return BuiltinsListed(tools=self.builtins.describe())

    async def call_tool(self, request: CallTool) -> ToolCalled:
        """Call a tool."""
        begun = time.perf_counter()
        within_s = _left_s(CALL_TOOL.timeout_s)
        answer = await self.caller.call(request.project, request.id, request.arguments, within_s)
        took_ms = (time.perf_counter() - begun) * 1000
        log.info("tool_called", tool=request.id, is_error=answer.is_error, took_ms=round(took_ms, 1))
        return ToolCalled(
            id=request.id,
            is_error=answer.is_error,
            text=answer.text,
            content=answer.content,
            structured=answer.structured,
            truncated=answer.truncated,
            took_ms=took_ms,
        )

    async def audit_callable(self, request: AuditCallable) -> CallableAudited:
        """Compare the catalogue with what can be called."""
        return await self.auditor.audit(request.project, _left_s(AUDIT_CALLABLE.timeout_s), fix=request.fix)


def _left_s(timeout_s: float) -> float:
    return max(headers.remaining_s(timeout_s) - _TO_REPLY_S, 0.1)


def _key(request: McpServerSelector) -> ServerKey:
    return ServerKey(request.project, request.name)
