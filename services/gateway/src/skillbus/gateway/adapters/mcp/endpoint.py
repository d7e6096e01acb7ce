"""The path `/mcp`: MCP over streamable HTTP, with an API key as bearer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.gateway.adapters.mcp.inner_request import CLIENT_LEFT
from skillbus.gateway.adapters.mcp.reply_form import choose_form
from skillbus.gateway.adapters.mcp.session_places import SessionPlaces
from skillbus.gateway.adapters.mcp.tools import SESSION_HEADER
from skillbus.gateway.domain.access.principal import Principal, get_caller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_PATH: Final = "/mcp"
METHODS: Final = ("POST", "DELETE")
"""Not GET: the server sends nothing but replies, and the progress of a request and questions about it in the reply."""

log = structlog.get_logger(__name__)


class McpEndpoint:
    """ASGI app of the path. Made by `open_mcp_endpoint`.

    Input files of runs may make a body large. So only keys that may run skills can send more than `small_body_bytes`.
    """

    path: Final = MCP_PATH
    """Name of the route in logs and metrics."""

    def __init__(self, small_body_bytes: int, run_body_bytes: int) -> None:
        self._small_body_bytes = small_body_bytes
        self._run_body_bytes = run_body_bytes
        self._places = SessionPlaces()
        self._wanted = asyncio.Event()
        self._closing = asyncio.Event()
        self._manager: asyncio.Future[StreamableHTTPSessionManager] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if scope["method"] not in METHODS:
            await Response(status_code=405, headers={"Allow": ", ".join(METHODS)})(scope, receive, send)
            return
        caller, headers = get_caller(scope), Headers(scope=scope)
        bounded = choose_form(self._limit_body(caller, headers, receive))
        self._wanted.set()
        manager = await asyncio.shield(self._manager)
        # The SDK refuses a session to every key but the one that opened it.
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415 (loaded with the manager)
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415

        user = AuthenticatedUser(AccessToken(token=caller.name, client_id=caller.name, scopes=[]))
        client_left = asyncio.Event()
        try:
            with nullcontext() if SESSION_HEADER in headers else self._places.hold_place(caller):
                await manager.handle_request({**scope, "user": user, CLIENT_LEFT: client_left}, bounded, send)
        finally:
            client_left.set()

    def _limit_body(self, caller: Principal, headers: Headers, receive: Receive) -> Receive:
        """Return a `receive` that raises RequestError (`payload_too_large`) when the body exceeds the caller's limit.

        Raises:
            RequestError: The declared length exceeds it.
        """
        may_run = caller.role.includes(Role.RUNNER)
        limit = self._run_body_bytes if may_run else self._small_body_bytes
        reason = "" if may_run else f": larger ones are for runs, which need the role {Role.RUNNER}"
        refusal = RequestError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"The body exceeds the limit of {limit} bytes of the role {caller.role}{reason}.",
        )
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > limit:
            raise refusal
        received = 0

        async def receive_bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise refusal
            return message

        return receive_bounded

    async def hold_sessions(self) -> None:
        """Serve from the first request until the endpoint closes. The SDK is imported with the first request."""
        await self._wanted.wait()
        if self._closing.is_set():
            return
        try:
            manager = await asyncio.to_thread(_make_session_manager, self._run_body_bytes, self._places)
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


def _make_session_manager(max_body_bytes: int, places: SessionPlaces) -> "StreamableHTTPSessionManager":
    from skillbus.gateway.adapters.mcp.server import make_session_manager  # noqa: PLC0415

    return make_session_manager(max_body_bytes, places)


@asynccontextmanager
async def open_mcp_endpoint(small_body_bytes: int, run_body_bytes: int) -> AsyncGenerator[McpEndpoint]:
    """Serve MCP while the context is open."""
    endpoint = McpEndpoint(small_body_bytes, run_body_bytes)
    holding = asyncio.create_task(endpoint.hold_sessions())
    try:
        yield endpoint
    finally:
        endpoint.close()
        await asyncio.wait([holding])
        if not holding.cancelled() and (error := holding.exception()) is not None:
            log.error("mcp_sessions_failed", exc_info=error)
