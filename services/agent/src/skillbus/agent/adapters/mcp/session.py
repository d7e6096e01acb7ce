"""Sessions with MCP servers, over HTTP or with a child process.

Each session is held by a task of its own: what a server does to the SDK ends that task and no other. The contexts of
the SDK cancel and group the exceptions that are raised in them.
"""

import asyncio
import contextvars
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import Final, TypeAlias, TypeVar

import anyio
import mcp.types as mcp
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.session import ClientSession
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, Field, JsonValue, SecretStr
from pydantic_core import to_json

from skillbus.agent.adapters.mcp.failures import describe_failure
from skillbus.agent.adapters.mcp.http import Streams, open_http_streams
from skillbus.agent.adapters.mcp.message_filter import MessageFilter
from skillbus.agent.adapters.mcp.process import LastWords, open_process_streams
from skillbus.agent.domain.errors import CallTimedOutError, ServerFailedError
from skillbus.agent.domain.ports import ServerGreeting
from skillbus.agent.domain.tool_answer import ToolAnswer, bound_answer
from skillbus.common.secrets import REFERENCE, Secrets, SecretUnreadableError, redact_json
from skillbus.contracts.agent.mcp_servers import RegisterMcpServer

OpenStreams = Callable[["McpSession"], AbstractAsyncContextManager[Streams]]

LISTING_BYTES: Final = 64 * 1024 * 1024
"""Size of all pages of one listing."""
MAX_TOOLS: Final = 20_000
MAX_PAGES: Final = 2_000
_CLOSE_S: Final = 5.0
_NO_TIME_LIMIT: Final = timedelta(days=1)
"""Time limit of the SDK. The session itself waits for each request, or for the end of the session."""
_NAME_MAX: Final = 200
_SESSION_TERMINATED: Final = 32600
"""Error code of the SDK for HTTP 404: the request was not done, and a new session is needed."""
_SDK_LOGGERS: Final = ("mcp", "client", "httpx_sse")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*")

Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Passed: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]
ResultT = TypeVar("ResultT", bound=BaseModel)
FirstT = TypeVar("FirstT")
SecondT = TypeVar("SecondT")


class _Page(BaseModel):
    """A page of tools as received. The SDK's own type refuses the whole page for one invalid tool."""

    tools: list[JsonValue]
    nextCursor: str | None = None  # noqa: N815 - MCP's name


class _CallResult(BaseModel):
    """The result of a call as received. The SDK's own type checks it against the server's output schema."""

    content: list[JsonValue] = Field(default_factory=list)
    structuredContent: JsonValue = None  # noqa: N815 - MCP's name
    isError: bool = False  # noqa: N815 - MCP's name


class _ErrorAnswer(Exception):  # noqa: N818 - an answer, raised to leave the request
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class McpSessions:
    """Implements `ToolSessions` with the SDK. References to secrets are resolved when a session begins."""

    def __init__(self, secrets: Secrets, *, stdio_allowed: bool) -> None:
        self._secrets = secrets
        self._stdio_allowed = stdio_allowed

    @asynccontextmanager
    async def open(self, server: RegisterMcpServer, on_change: Callable[[], None]) -> AsyncGenerator["McpSession"]:
        values = server.headers if server.url is not None else server.env
        given = self._resolve(values)
        secrets = tuple(value for name, value in given.items() if REFERENCE.fullmatch(values[name]))
        session = McpSession(tuple(given.values()), secrets, on_change)
        plain = {name: value.get_secret_value() for name, value in given.items()}
        streams = _prepare_http(server, plain) if server.url is not None else self._prepare_process(server, plain)
        async with session.hold(streams, server.timeout_s):
            yield session

    def _resolve(self, values: Mapping[str, str]) -> dict[str, SecretStr]:
        try:
            return {
                name: self._secrets.resolve_line(value) if REFERENCE.fullmatch(value) else SecretStr(value)
                for name, value in values.items()
            }
        except SecretUnreadableError as error:
            raise ServerFailedError(str(error)) from error

    def _prepare_process(self, server: RegisterMcpServer, environment: Mapping[str, str]) -> OpenStreams:
        if not self._stdio_allowed:
            raise ServerFailedError("it has to be started, and that is not allowed here any more")
        command = (server.command or "", *server.args)
        return lambda session: open_process_streams(command, environment, session.end, LastWords())


def _prepare_http(server: RegisterMcpServer, headers: Mapping[str, str]) -> OpenStreams:
    if invalid := [name for name, value in headers.items() if not _HEADER_VALUE.fullmatch(value)]:
        raise ServerFailedError(f"the value of the header {invalid[0]} has characters that are not allowed in headers")
    return lambda session: open_http_streams(server.url or "", headers, server.timeout_s, session.end)


class McpSession:
    """Implements `ToolSession`.

    Args:
        given: All values that the server was given. They are redacted in messages about its failures.
        secrets: The values that were given by reference. They are redacted in everything that it answers.
        on_change: Called when the server's list changed and when the session ends.
    """

    def __init__(self, given: Sequence[SecretStr], secrets: Sequence[SecretStr], on_change: Callable[[], None]) -> None:
        self._given = given
        self._secrets = secrets
        self._on_change = on_change
        self._ended: asyncio.Future[ServerFailedError] = asyncio.get_running_loop().create_future()
        self._opened: asyncio.Future[tuple[ClientSession, ServerGreeting]] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()

    @property
    def greeting(self) -> ServerGreeting:
        return self._opened.result()[1]

    def check(self) -> None:
        if self._ended.done():
            raise self._make_end_error()

    async def list_tools(self) -> tuple[JsonValue, ...]:
        tools: list[JsonValue] = []
        size, cursor, seen = 0, None, set[str]()
        for _ in range(MAX_PAGES):
            params = None if cursor is None else mcp.PaginatedRequestParams(cursor=cursor)
            page = await self._request(mcp.ClientRequest(mcp.ListToolsRequest(params=params)), _Page)
            size += len(to_json(page.tools))
            tools += await asyncio.to_thread(self._redact, page.tools)
            if len(tools) > MAX_TOOLS or size > LISTING_BYTES:
                raise ServerFailedError(f"it lists more than {MAX_TOOLS} tools or {LISTING_BYTES} bytes: none is used")
            cursor = page.nextCursor
            if cursor is None:
                return tuple(tools)
            if cursor in seen:
                raise ServerFailedError("its listing is circular: it returns the same cursor again")
            seen.add(cursor)
        raise ServerFailedError(f"its listing has more than {MAX_PAGES} pages: none is used")

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolAnswer:
        params = mcp.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = mcp.ClientRequest(mcp.CallToolRequest(params=params))
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                result = await self._request(request, _CallResult)
        except _ErrorAnswer as answer:
            (message,) = self._redact([answer.message])
            return ToolAnswer(text=str(message)[:10_000], is_error=True)
        except TimeoutError:
            raise CallTimedOutError(
                f"the server did not answer within {timeout_s:.1f} s; the call may or may not have been done"
            ) from None
        return await asyncio.to_thread(self._make_answer, result)

    def _make_answer(self, result: _CallResult) -> ToolAnswer:
        (structured,) = self._redact([result.structuredContent])
        return bound_answer(self._redact(result.content), structured, is_error=result.isError)

    def _redact(self, values: list[JsonValue]) -> list[JsonValue]:
        return [redact_json(value, self._secrets) for value in values]

    @asynccontextmanager
    async def hold(self, streams: OpenStreams, timeout_s: float) -> AsyncGenerator[None]:
        """Open the session within `timeout_s`, and close it at the end of the context. Raises ServerFailedError."""
        for name in _SDK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they log what a server sends, with tracebacks
        holder = asyncio.create_task(self._hold(streams), context=contextvars.Context())
        try:
            await _wait_for_either(self._opened, self._ended, timeout_s)
            self.check()
            if not self._opened.done():
                raise ServerFailedError(f"it did not begin a session within {timeout_s:g} s")
            yield
        finally:
            self._closing.set()
            await asyncio.wait({holder}, timeout=_CLOSE_S if self._opened.done() else 0)
            holder.cancel()
            await asyncio.wait({holder})

    async def _hold(self, streams: OpenStreams) -> None:
        try:
            async with streams(self) as (read, write):
                incoming, passed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
                with read, incoming, passed:
                    await self._converse(read, write, incoming, passed)
        except Exception as error:  # noqa: BLE001 - the SDK raises anything, depending on the server
            self.end(error)
        finally:
            self.end(ServerFailedError("the session was closed"))

    async def _converse(self, read: Incoming, write: Outgoing, incoming: Passed, passed: Incoming) -> None:
        message_filter = MessageFilter(read, write, self._on_change, self.end)
        us = mcp.Implementation(name="skillbus", version=version("skillbus-contracts"))
        async with asyncio.TaskGroup() as group:
            filtering = group.create_task(message_filter.run(incoming))
            async with ClientSession(passed, write, _NO_TIME_LIMIT, client_info=us) as client:
                self._opened.set_result((client, _make_greeting(await client.initialize())))
                await self._closing.wait()
            filtering.cancel()

    def end(self, error: Exception) -> None:
        """End the session for this reason; only the first reason counts."""
        if not self._ended.done():
            self._ended.set_result(describe_failure(error, self._given))
            self._closing.set()
            self._on_change()

    async def _request(self, request: mcp.ClientRequest, result: type[ResultT]) -> ResultT:
        """Send a request, and wait for its answer or the end of the session. Raises ServerFailedError."""
        self.check()
        client = self._opened.result()[0]
        answer = asyncio.ensure_future(client.send_request(request, result))
        try:
            await _wait_for_either(answer, self._ended)
            if answer.done():
                return answer.result()
        except McpError as error:
            if error.error.code == _SESSION_TERMINATED:
                self.end(ServerFailedError("it no longer knows the session"))
            elif error.error.code != mcp.CONNECTION_CLOSED:
                if isinstance(request.root, mcp.CallToolRequest):
                    raise _ErrorAnswer(error.error.message) from error
                raise describe_failure(error, self._given) from error
            await asyncio.wait({self._ended}, timeout=_CLOSE_S)  # the reason for the end is known a moment later
        except Exception as error:  # as above
            raise describe_failure(error, self._given) from error
        finally:
            answer.cancel()
        raise self._make_end_error()

    def _make_end_error(self) -> ServerFailedError:
        return ServerFailedError(str(self._ended.result()) if self._ended.done() else "the session was closed")


async def _wait_for_either(
    one: asyncio.Future[FirstT], other: asyncio.Future[SecondT], timeout_s: float | None = None
) -> None:
    both: set[asyncio.Future[FirstT] | asyncio.Future[SecondT]] = {one, other}
    await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _make_greeting(result: mcp.InitializeResult) -> ServerGreeting:
    info = result.serverInfo
    name = (info.title or info.name)[:_NAME_MAX].replace("\0", "")
    return ServerGreeting(name, info.version[:_NAME_MAX], str(result.protocolVersion)[:_NAME_MAX])
