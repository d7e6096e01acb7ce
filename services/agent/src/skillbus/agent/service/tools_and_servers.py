"""Handlers of the agent's requests."""

import time
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import structlog

from skillbus.agent.domain.approvals import refuse_call
from skillbus.agent.domain.auditor import CallableAuditor
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.servers.operator_servers import OperatorServers
from skillbus.agent.domain.servers.registration import ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_answer import describe_call
from skillbus.agent.domain.tool_caller import ToolCaller
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
    CallCancelled,
    CallSelector,
    CallTool,
    ToolCalled,
)
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.message import Empty

_TO_REPLY_S: Final = 1.0
"""Part of the caller's time reserved for the reply, so that the caller learns the state instead of a timeout."""
_ANSWERS: Final = 2
"""A first listing takes at most this many `timeout_s` of the server: one for the session, one for the list."""
_SPARE_S: Final = 15.0
"""Time for the catalogue to accept the tools, for the process of a failed server to end, or for a run to begin."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentHandlers:
    """Answers the agent's requests."""

    servers: ServerRegistry
    operator_servers: OperatorServers
    builtins: BuiltinTools
    caller: ToolCaller
    auditor: CallableAuditor

    async def register_mcp_server(self, request: RegisterMcpServer) -> McpServer:
        """Register a server and return it with the result of its first listing, if that ends in time."""
        within_s = min(_left_s(REGISTER_MCP_SERVER.timeout_s), request.timeout_s * _ANSWERS + _SPARE_S)
        server = (await self.servers.register(request, within_s)).describe()
        log.info("mcp_server_registered", server=server.name, state=server.state, tools=server.tools)
        return server

    async def list_mcp_servers(self, request: ListMcpServers) -> McpServersListed:
        servers = await self.servers.list_servers(request.project)
        described = tuple(server.describe(brief=True) for server in servers)
        return McpServersListed(servers=described, file_problem=self.operator_servers.problem)

    async def get_mcp_server(self, request: McpServerSelector) -> McpServer:
        return (await self.servers.get_server(_key(request))).describe()

    async def refresh_mcp_server(self, request: McpServerSelector) -> McpServer:
        return (await self.servers.refresh(_key(request), _left_s(REFRESH_MCP_SERVER.timeout_s))).describe()

    async def remove_mcp_server(self, request: McpServerSelector) -> McpServerRemoved:
        removed = await self.servers.unregister(_key(request))
        log.info("mcp_server_removed", server=request.name, tools=removed)
        return McpServerRemoved(name=request.name, tools=removed)

    async def check_mcp_file(self) -> HealthCheck:
        """Return a check that warns of an operator's file that is not used as it is now."""
        return HealthCheck(name="mcp.json", ready=True, warning=self.operator_servers.problem or "")

    async def list_builtins(self, _: Empty) -> BuiltinsListed:
        return BuiltinsListed(tools=self.builtins.describe())

    async def call_tool(self, request: CallTool) -> ToolCalled:
        started, run_id = time.perf_counter(), request.run_id or uuid4().hex
        within_s = _left_s(max(CALL_TOOL.timeout_s, (request.timeout_s or 0) + _SPARE_S))
        approve = refuse_call if request.by_agent else None
        answer = await self.caller.call(request, run_id, within_s, approve)
        called = describe_call(request.id, run_id, answer, started)
        log.info("tool_called", tool=request.id, is_error=called.is_error, duration_ms=round(called.duration_ms, 1))
        return called

    async def cancel_call(self, request: CallSelector) -> CallCancelled:
        ending = await self.caller.lines.cancel(request.run_id, request.project)
        return CallCancelled(run_id=request.run_id, ending=ending)

    async def audit_callable(self, request: AuditCallable) -> CallableAudited:
        return await self.auditor.audit_project(request.project, _left_s(AUDIT_CALLABLE.timeout_s), fix=request.fix)


def _left_s(timeout_s: float) -> float:
    return max(headers.remaining_s(timeout_s) - _TO_REPLY_S, 0.1)


def _key(request: McpServerSelector) -> ServerKey:
    return ServerKey(request.project, request.name)
