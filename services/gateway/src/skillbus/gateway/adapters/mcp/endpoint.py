"""The path `/mcp`: MCP over streamable HTTP, with an API key as bearer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skillbus.gateway.domain.access.principal import get_caller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_PATH: Final = "/mcp"
METHODS: Final = ("POST", "DELETE")
"""Not GET: the server sends nothing but replies and the progress of a request, in the reply to it."""

log = structlog.get_logger(__name__)


class McpEndpoint:
    """ASGI app of the path. Made by `open_mcp_endpoint`."""

    path: Final = MCP_PATH
    """Name of the route in logs and metrics."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._wanted = asyncio.Event()
        self._closing = asyncio.Event()
        self._manager: asyncio.Future[StreamableHTTPSessionManager] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if scope["method"] not in METHODS:
            await Response(status_code=405, headers={"Allow": ", ".join(METHODS)})(scope, receive, send)
            return
        self._wanted.set()
        manager = await asyncio.shield(self._manager)
        # The SDK refuses a session to every key but the one that opened it.
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415 (loaded with the manager)
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415

        name = get_caller(scope).name
        user = AuthenticatedUser(AccessToken(token=name, client_id=name, scopes=[]))
        await manager.handle_request({**scope, "user": user}, receive, send)

    async def hold_sessions(self) -> None:
        """Serve from the first request until the endpoint closes. The SDK is imported with the first request."""
        await self._wanted.wait()
        if self._closing.is_set():
            return
        try:
            manager = await asyncio.to_thread(_make_session_manager, self._max_body_bytes)
        except Exception as error:
            self._manager.set_exception(error)  # every request shows it
            raise
        async with manager.run():
            self._manager.set_result(manager)
            await self._closing.wait()

    def close(self) -> None:
        """End all sessions."""
        self._closing.set()
        self._wanted.set()


def _make_session_manager(max_body_bytes: int) -> "StreamableHTTPSessionManager":
    from skillbus.gateway.adapters.mcp.server import make_session_manager  # noqa: PLC0415

    return make_session_manager(max_body_bytes)


@asynccontextmanager
async def open_mcp_endpoint(max_body_bytes: int) -> AsyncGenerator[McpEndpoint]:
    """Serve MCP while the context is open."""
    endpoint = McpEndpoint(max_body_bytes)
    holding = asyncio.create_task(endpoint.hold_sessions())
    try:
        yield endpoint
    finally:
        endpoint.close()
        await asyncio.wait([holding])
        if not holding.cancelled() and (error := holding.exception()) is not None:
            log.error("mcp_sessions_failed", exc_info=error)
