"""A session with a server, held by a task of its own.

What a server does to the SDK ends that task, and no other: the contexts of the SDK cancel and group what is raised in
them, and only there.
"""

import asyncio
import contextvars
import logging
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

from skillbus.agent.adapters.mcp.failure import failure_of
from skillbus.agent.adapters.mcp.http import Streams
from skillbus.agent.adapters.mcp.limits import LISTING_BYTES, PAGES, TOOLS
from skillbus.agent.adapters.mcp.sieve import Sieve
from skillbus.agent.domain.answer import ToolAnswer
from skillbus.agent.domain.bounding import bounded
from skillbus.agent.domain.errors import CallTimedOutError, ServerFailedError
from skillbus.agent.domain.ports import Greeting
from skillbus.common.secrets import redact_json

OpenStreams = Callable[["McpSession"], AbstractAsyncContextManager[Streams]]

_CLOSE_S: Final = 5.0
_NO_TIME_LIMIT: Final = timedelta(days=1)
"""Of the SDK's own: each request is waited for here, with the end of the session."""
_NAME_MAX: Final = 200
_SESSION_TERMINATED: Final = 32600
"""What the SDK makes of HTTP 404: the request was not done, and the session has to be begun again."""
_SDK_LOGGERS: Final = ("mcp", "client", "httpx_sse")

Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Passed: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]
ResultT = TypeVar("ResultT", bound=BaseModel)
FirstT = TypeVar("FirstT")
SecondT = TypeVar("SecondT")


class _Page(BaseModel):
    """A page of tools as it came: the SDK's own type refuses all tools for one that is no tool."""

    tools: list[JsonValue]
    nextCursor: str | None = None  # noqa: N815 - MCP's name


class _Called(BaseModel):
    """The answer of a call as it came. The SDK's own way checks it against the server's word for a schema."""

    content: list[JsonValue] = Field(default_factory=list)
    structuredContent: JsonValue = None  # noqa: N815 - MCP's name
    isError: bool = False  # noqa: N815 - MCP's name


class McpSession:
    """Implements `Session`.

    Args:
        given: All that the server was given, which is blacked out of what is told of its failures.
        secrets: What of it was given by reference, which is blacked out of all that it answers.
        on_change: Hears that its list changed, or that the session is over.
    """

    def __init__(self, given: Sequence[SecretStr], secrets: Sequence[SecretStr], on_change: Callable[[], None]) -> None:
        self._given = given
        self._secrets = secrets
        self._on_change = on_change
        self._over: asyncio.Future[ServerFailedError] = asyncio.get_running_loop().create_future()
        self._opened: asyncio.Future[tuple[ClientSession, Greeting]] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()

    @property
    def greeting(self) -> Greeting:
        return self._opened.result()[1]

    def check(self) -> None:
        if self._over.done():
            raise self._over_for()

    async def list_tools(self) -> tuple[JsonValue, ...]:
        tools: list[JsonValue] = []
        size, cursor, seen = 0, None, set[str]()
        for _ in range(PAGES):
            page = await self._request(_listing(cursor), _Page)
            size += len(to_json(page.tools))
            tools += await asyncio.to_thread(self._without_secrets, page.tools)
            if len(tools) > TOOLS or size > LISTING_BYTES:
                raise ServerFailedError(f"it lists more than {TOOLS} tools or {LISTING_BYTES} bytes: none is taken")
            cursor = page.nextCursor
            if cursor is None:
                return tuple(tools)
            if cursor in seen:
                raise ServerFailedError("its listing goes round in circles: it gives the same cursor again")
            seen.add(cursor)
        raise ServerFailedError(f"its listing has more than {PAGES} pages: none is taken")

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float) -> ToolAnswer:
        params = mcp.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = mcp.ClientRequest(mcp.CallToolRequest(params=params))
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                called = await self._request(request, _Called)
        except _AnsweredError as answered:
            (message,) = self._without_secrets([answered.message])
            return ToolAnswer(text=str(message)[:10_000], is_error=True)
        except TimeoutError:
            raise CallTimedOutError(
                f"the server did not answer within {timeout_s:.1f} s; the call may or may not have been done"
            ) from None
        return await asyncio.to_thread(self._answer, called)

    def _answer(self, called: _Called) -> ToolAnswer:
        (structured,) = self._without_secrets([called.structuredContent])
        return bounded(self._without_secrets(called.content), structured, is_error=called.isError)

    def _without_secrets(self, values: list[JsonValue]) -> list[JsonValue]:
        return [redact_json(value, self._secrets) for value in values]

    @asynccontextmanager
    async def held(self, streams: OpenStreams, timeout_s: float) -> AsyncGenerator["McpSession"]:
        """The session, opened within `timeout_s`. Raises ServerFailedError."""
        for name in _SDK_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they write what a server sends, with tracebacks
        holder = asyncio.create_task(self._hold(streams), context=contextvars.Context())
        try:
            await _either(self._opened, self._over, timeout_s)
            self.check()
            if not self._opened.done():
                raise ServerFailedError(f"it did not begin a session within {timeout_s:g} s")
            yield self
        finally:
            self._closing.set()
            await asyncio.wait({holder}, timeout=_CLOSE_S if self._opened.done() else 0)
            holder.cancel()
            await asyncio.wait({holder})

    async def _hold(self, streams: OpenStreams) -> None:
        try:
            async with streams(self) as (read, write):
                incoming, sieved = anyio.create_memory_object_stream[SessionMessage | Exception](0)
                with read, incoming, sieved:
                    await self._converse(read, write, incoming, sieved)
        except Exception as error:  # noqa: BLE001 - the SDK raises whatever a server makes of it
            self.end(error)
        finally:
            self.end(ServerFailedError("the session was closed"))

    async def _converse(self, read: Incoming, write: Outgoing, passed: Passed, sieved: Incoming) -> None:
        sieve = Sieve(read, write, self._on_change, self.end)
        async with asyncio.TaskGroup() as group:
            sieving = group.create_task(sieve.run(passed))
            async with ClientSession(sieved, write, _NO_TIME_LIMIT, client_info=_us()) as client:
                self._opened.set_result((client, _greeting(await client.initialize())))
                await self._closing.wait()
            sieving.cancel()

    def end(self, error: Exception) -> None:
        """The session is over for this reason, if it is not yet."""
        if not self._over.done():
            self._over.set_result(failure_of(error, self._given))
            self._closing.set()
            self._on_change()

    async def _request(self, request: mcp.ClientRequest, result: type[ResultT]) -> ResultT:
        """Ask, and wait for the answer or the end of the session. Raises ServerFailedError."""
        self.check()
        client = self._opened.result()[0]
        asked = asyncio.ensure_future(client.send_request(request, result))
        try:
            await _either(asked, self._over)
            if asked.done():
                return asked.result()
        except McpError as error:
            if error.error.code == _SESSION_TERMINATED:
                self.end(ServerFailedError("it knows the session no longer"))
            elif error.error.code != mcp.CONNECTION_CLOSED:
                raise self._refused(request, error) from error
            await asyncio.wait({self._over}, timeout=_CLOSE_S)  # why it was closed is known a moment later
        except Exception as error:  # as above
            raise failure_of(error, self._given) from error
        finally:
            asked.cancel()
        raise self._over_for()

    def _refused(self, request: mcp.ClientRequest, error: McpError) -> Exception:
        if isinstance(request.root, mcp.CallToolRequest):
            return _AnsweredError(error.error.message)
        return failure_of(error, self._given)

    def _over_for(self) -> ServerFailedError:
        return ServerFailedError(str(self._over.result()) if self._over.done() else "the session was closed")


class _AnsweredError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


async def _either(one: asyncio.Future[FirstT], other: asyncio.Future[SecondT], timeout_s: float | None = None) -> None:
    """Wait until one of them is done, or time is over."""
    both: set[asyncio.Future[FirstT] | asyncio.Future[SecondT]] = {one, other}
    await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _listing(cursor: str | None) -> mcp.ClientRequest:
    params = None if cursor is None else mcp.PaginatedRequestParams(cursor=cursor)
    return mcp.ClientRequest(mcp.ListToolsRequest(params=params))


def _greeting(said: mcp.InitializeResult) -> Greeting:
    name = (said.serverInfo.title or said.serverInfo.name)[:_NAME_MAX]
    return Greeting(name.replace("\0", ""), said.serverInfo.version[:_NAME_MAX], str(said.protocolVersion)[:_NAME_MAX])


def _us() -> mcp.Implementation:
    return mcp.Implementation(name="skillbus", version=version("skillbus-contracts"))
