"""Sessions with MCP servers, over HTTP or with a child process.

Each session runs in a separate task: an error that a server causes in the SDK ends that task and no other. The contexts
of the SDK cancel and group the exceptions that are raised in them.
"""

import asyncio
import contextvars
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from importlib.metadata import version
from typing import Final, TypeAlias, TypeVar

import anyio
import httpx
import mcp.types as mcp
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.session import ClientSession
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, Field, JsonValue, SecretStr, ValidationError
from pydantic_core import to_json

from skillbus.agent.adapters.mcp.http import Streams, open_http_streams
from skillbus.agent.adapters.mcp.stdio import LastWords, open_stdio_streams
from skillbus.agent.adapters.outside_access import OutsideAccess
from skillbus.agent.domain.errors import CallTimedOutError, ServerFailedError
from skillbus.agent.domain.ports import ReportSlowStart, ServerGreeting
from skillbus.agent.domain.servers.operator_file import CommandServer, OperatorServer
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common.outbound.secret_grants import STDIO
from skillbus.common.outbound.transport import read_destination
from skillbus.common.secrets import REFERENCE, SecretUnreadableError, redact_json, redact_text

LISTING_BYTES: Final = 64 * 1024 * 1024
"""Size of all pages of one listing."""
MAX_TOOLS: Final = 20_000
MAX_PAGES: Final = 2_000
_CLOSE_S: Final = 5.0
_SLOW_START_S: Final = 5.0
"""Time after which a first start is reported as slow."""
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
_MESSAGE_CHARACTERS: Final = 300
_MIN_SECRET_CHARACTERS: Final = 4
"""Messages are short, so shorter secrets are redacted than in answers of tools."""
log = structlog.get_logger(__name__)
_LIST_CHANGED = "notifications/tools/list_changed"
_PING = "ping"


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


@asynccontextmanager
async def open_mcp_session(
    server: OperatorServer,
    on_change: Callable[[], None],
    report_slow_start: ReportSlowStart | None,
    outside: OutsideAccess,
) -> AsyncGenerator["McpSession"]:
    """Implement `OpenSession` with the SDK. References to secrets are resolved when a session begins."""
    values = server.env if isinstance(server, CommandServer) else server.headers
    try:
        destination = STDIO if isinstance(server, CommandServer) else read_destination(httpx.URL(server.url))
        given = {
            name: outside.secrets.resolve_line(value, destination) if REFERENCE.fullmatch(value) else SecretStr(value)
            for name, value in values.items()
        }
    except SecretUnreadableError as error:
        raise ServerFailedError(str(error)) from error
    except (httpx.InvalidURL, ValueError) as error:  # the latter for host names that IDNA does not know
        raise ServerFailedError("its url is not an address that can be connected to; register another") from error
    referenced = tuple(value for name, value in given.items() if REFERENCE.fullmatch(values[name]))
    session = McpSession(tuple(given.values()), referenced, on_change)
    plain = {name: value.get_secret_value() for name, value in given.items()}
    start = None
    if isinstance(server, CommandServer):
        if report_slow_start is not None:
            start = FirstStart(max(server.timeout_s, server.start_timeout_s), report_slow_start)
        streams = open_stdio_streams((server.command, *server.args), plain, session.end, LastWords())
    else:
        if invalid := [name for name, value in plain.items() if not _HEADER_VALUE.fullmatch(value)]:
            raise ServerFailedError(
                f"the value of the header {invalid[0]} has characters that are not allowed in headers"
            )
        streams = open_http_streams(server.url, plain, server.timeout_s, session.end, outside.addresses)
    async with session.hold(streams, server.timeout_s, start):
        yield session


@dataclass(frozen=True, slots=True)
class FirstStart:
    """First start of a command, which may download a package."""

    timeout_s: float
    report_slow: ReportSlowStart


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
        self._notifying = set[asyncio.Future[None]]()

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
        return ToolAnswer(content=tuple(self._redact(result.content)), structured=structured, is_error=result.isError)

    def _redact(self, values: list[JsonValue]) -> list[JsonValue]:
        return [redact_json(value, self._secrets) for value in values]

    @asynccontextmanager
    async def hold(
        self, streams: AbstractAsyncContextManager[Streams], timeout_s: float, start: FirstStart | None = None
    ) -> AsyncGenerator[None]:
        """Open the session within `timeout_s` or that of its first start, and close it at the end of the context.

        Raises:
            ServerFailedError: The session did not begin.
        """
        for name in _SDK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they log what a server sends, with tracebacks
        holder = asyncio.create_task(self._hold(streams), context=contextvars.Context())
        try:
            await self._wait_until_open(timeout_s, start)
            yield
        finally:
            self._closing.set()
            await asyncio.wait({holder}, timeout=_CLOSE_S if self._opened.done() else 0)
            holder.cancel()
            await asyncio.wait({holder})

    async def _wait_until_open(self, timeout_s: float, start: FirstStart | None) -> None:
        limit_s, waited_s = timeout_s, 0.0
        if start is not None:
            limit_s, waited_s = start.timeout_s, min(timeout_s, _SLOW_START_S)
            await _wait_for_either(self._opened, self._ended, waited_s)
            if not (self._opened.done() or self._ended.done()):
                await start.report_slow(limit_s)
        await _wait_for_either(self._opened, self._ended, limit_s - waited_s)
        self.check()
        if not self._opened.done():
            raise ServerFailedError(f"it did not begin a session within {limit_s:g} s")

    async def _hold(self, streams: AbstractAsyncContextManager[Streams]) -> None:
        try:
            async with streams as (read, write):
                incoming, passed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
                with read, incoming, passed:
                    await self._converse(read, write, incoming, passed)
        except Exception as error:  # noqa: BLE001 - the SDK raises anything, depending on the server
            self.end(error)
        finally:
            self.end(ServerFailedError("the session was closed"))

    async def _converse(self, read: Incoming, write: Outgoing, incoming: Passed, passed: Incoming) -> None:
        us = mcp.Implementation(name="skillbus", version=version("skillbus-contracts"))
        async with asyncio.TaskGroup() as group:
            filtering = group.create_task(self._filter_messages(read, write, incoming))
            async with ClientSession(passed, write, _NO_TIME_LIMIT, client_info=us) as client:
                result = await client.initialize()
                info = result.serverInfo
                name = (info.title or info.name)[:_NAME_MAX].replace("\0", "")
                protocol = str(result.protocolVersion)[:_NAME_MAX]
                self._opened.set_result((client, ServerGreeting(name, info.version[:_NAME_MAX], protocol)))
                await self._closing.wait()
            filtering.cancel()

    async def _filter_messages(self, transport: Incoming, answer: Outgoing, session: Passed) -> None:
        """Pass answers and pings to the SDK until the transport ends, then end the session.

        The SDK logs messages that it does not understand in full, and their size is up to the server.
        """
        async with session:
            try:
                async for message in transport:
                    if isinstance(message, Exception):
                        self.end(message)
                    elif await self._is_for_sdk(message.message, answer):
                        await session.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def _is_for_sdk(self, message: mcp.JSONRPCMessage, answer: Outgoing) -> bool:
        match message.root:
            case mcp.JSONRPCNotification(method=method):
                if method == _LIST_CHANGED:
                    self._on_change()
                return False
            case mcp.JSONRPCRequest(method=method, id=request_id) if method != _PING:
                error = mcp.ErrorData(code=mcp.METHOD_NOT_FOUND, message="this client only calls tools")
                refusal = mcp.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
                await answer.send(SessionMessage(mcp.JSONRPCMessage(refusal)))
                return False
        return True

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
        number: int | None = None

        async def send() -> ResultT:
            nonlocal number
            number = client._request_id  # noqa: SLF001 - `send_request` takes it in this step, and tells nobody
            return await client.send_request(request, result)

        answer = asyncio.ensure_future(send())
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
        except asyncio.CancelledError:
            if number is not None:
                self._notify_cancelled(client, number)
            raise
        finally:
            answer.cancel()
        raise self._make_end_error()

    def _notify_cancelled(self, client: ClientSession, number: int) -> None:
        """Inform the server that nobody waits for its answer, without waiting for a server that does not read."""
        params = mcp.CancelledNotificationParams(requestId=number, reason="the caller does not wait any more")
        notification = mcp.ClientNotification(mcp.CancelledNotification(params=params))
        notifying = asyncio.ensure_future(client.send_notification(notification))
        self._notifying.add(notifying)
        notifying.add_done_callback(self._forget_notification)

    def _forget_notification(self, notifying: asyncio.Future[None]) -> None:
        self._notifying.discard(notifying)
        if not notifying.cancelled() and (error := notifying.exception()) is not None:
            log.debug("mcp_cancel_not_sent", error=repr(error))  # the session has ended, and the call with it

    def _make_end_error(self) -> ServerFailedError:
        return ServerFailedError(str(self._ended.result()) if self._ended.done() else "the session was closed")


async def _wait_for_either(
    one: asyncio.Future[FirstT], other: asyncio.Future[SecondT], timeout_s: float | None = None
) -> None:
    both: set[asyncio.Future[FirstT] | asyncio.Future[SecondT]] = {one, other}
    await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def describe_failure(error: BaseException, secrets: Sequence[SecretStr] = ()) -> ServerFailedError:
    """Convert an error of the SDK to a message for operators. The values that the server was given are redacted."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = str(error) if isinstance(error, ServerFailedError) else _describe(error)
    return ServerFailedError(redact_text(message, secrets, _MIN_SECRET_CHARACTERS))


def _describe(error: BaseException) -> str:
    match error:
        case httpx.HTTPStatusError():
            message = _describe_status(error.response)
        case httpx.TimeoutException() | TimeoutError():
            message = "it did not answer in time"
        case httpx.ConnectError():
            message = f"it cannot be reached: {str(error)[:_MESSAGE_CHARACTERS] or 'no connection'}"
        case httpx.HTTPError() | httpx.InvalidURL():
            # Their messages can contain a header that the server was given.
            message = f"the connection failed: {type(error).__name__}"
        case McpError():
            message = f"it answers with the error {error.error.code}"
        case ValidationError():
            message = f"its answer is not valid MCP: {error.title} with {error.error_count()} errors"
        case OSError():
            message = f"it cannot be started: {error.strerror or type(error).__name__}"
        case RuntimeError() | ValueError():  # the SDK quotes the answer in them
            message = "its answer is not valid MCP, or of a version that is not supported"
        case _:
            message = f"the session ended with {type(error).__name__}"
    return message


def _describe_status(response: httpx.Response) -> str:
    try:
        phrase = f" {HTTPStatus(response.status_code).phrase}"  # not the server's own
    except ValueError:
        phrase = ""
    status = f"it answers HTTP {response.status_code}{phrase}"
    if response.next_request is None:
        return status
    return f"{status} and redirects, which is not followed: register the address that it redirects to, if that is right"
