"""The agent's composition root."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from skillbus.agent.adapters.builtins.bus_catalogue import BusBuiltinCatalogue
from skillbus.agent.adapters.builtins.catalogue_with_builtins import CatalogueWithBuiltins
from skillbus.agent.adapters.builtins.opening import builtin_tools
from skillbus.agent.adapters.bus_announcer import BusAnnouncer
from skillbus.agent.adapters.kv_servers import KvServers, open_changes
from skillbus.agent.domain.auditing import Auditor
from skillbus.agent.domain.builtins.cataloguing import BuiltinsInCatalogue
from skillbus.agent.domain.calling import Caller
from skillbus.agent.domain.following import FollowerPorts, Timing
from skillbus.agent.domain.ports import Session
from skillbus.agent.domain.servers import Servers
from skillbus.agent.errors_on_the_wire import to_wire
from skillbus.agent.service import AgentHandlers
from skillbus.agent.settings import AgentSettings
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Route, route
from skillbus.common.secrets import Secrets
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts import agent as contract
from skillbus.contracts.agent.mcp_servers import (
    GET_MCP_SERVER,
    LIST_MCP_SERVERS,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    RegisterMcpServer,
)
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, CALL_TOOL, LIST_BUILTINS


@asynccontextmanager
async def open_agent(bus: Bus, settings: AgentSettings) -> AsyncGenerator[ServiceHealth]:
    """The agent on the bus, following the servers that are registered."""
    builtins = builtin_tools(bus.caller, settings.data / "files", without=settings.without_builtins)
    kept = BuiltinsInCatalogue(BusBuiltinCatalogue(bus.caller), builtins.describe())
    catalogue = CatalogueWithBuiltins(bus.caller, kept.want)
    ports = FollowerPorts(
        store=KvServers(bus),
        sessions=_LazySessions(Secrets(folder=settings.secrets_folder), stdio_allowed=settings.stdio_servers),
        catalogue=catalogue,
        announcer=BusAnnouncer(bus),
        now=lambda: datetime.now(UTC),
    )
    servers = Servers(ports, Timing(poll_every_s=settings.poll_every_s), stdio_allowed=settings.stdio_servers)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_catalogued(kept, settings.builtin_projects))
        await stack.enter_async_context(servers.running(await stack.enter_async_context(open_changes(bus))))
        handlers = AgentHandlers(
            servers, builtins, Caller(catalogue, servers, builtins), Auditor(catalogue, servers, builtins, kept)
        )
        health = ServiceHealth(contract.SERVICE)
        await stack.enter_async_context(serve_routes(bus, contract.SERVICE, _routes(handlers), health, to_wire))
        yield health


class _LazySessions:
    """Implements `Sessions`. The SDK is loaded with the first session: it costs memory and a second of start."""

    def __init__(self, secrets: Secrets, *, stdio_allowed: bool) -> None:
        self._secrets = secrets
        self._stdio_allowed = stdio_allowed

    def open(self, server: RegisterMcpServer, on_change: Callable[[], None]) -> AbstractAsyncContextManager[Session]:
        from skillbus.agent.adapters.mcp.sessions import McpSessions  # noqa: PLC0415 - see the class

        return McpSessions(self._secrets, stdio_allowed=self._stdio_allowed).open(server, on_change)


@asynccontextmanager
async def _catalogued(kept: BuiltinsInCatalogue, projects: Iterable[str]) -> AsyncGenerator[None]:
    """The builtin tools, put into the catalogue of these projects as soon as the indexer is there."""
    for project in projects:
        kept.want(project)
    keeping = asyncio.create_task(kept.run())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


def _routes(handlers: AgentHandlers) -> list[Route]:
    return [
        route(REGISTER_MCP_SERVER, handlers.register_mcp_server),
        route(LIST_MCP_SERVERS, handlers.list_mcp_servers),
        route(GET_MCP_SERVER, handlers.get_mcp_server),
        route(REFRESH_MCP_SERVER, handlers.refresh_mcp_server),
        route(REMOVE_MCP_SERVER, handlers.remove_mcp_server),
        route(LIST_BUILTINS, handlers.list_builtins),
        route(CALL_TOOL, handlers.call_tool),
        route(AUDIT_CALLABLE, handlers.audit_callable),
    ]
