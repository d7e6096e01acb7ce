"""Streamable HTTP transport: bounds the size of messages, and sends its headers to one origin only.

The SDK follows redirects within the origin of the address, and no others.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from skillbus.agent.domain.errors import ServerFailedError
from skillbus.common.outbound.addresses import AddressRefusedError, AddressRule
from skillbus.common.outbound.transport import GuardedTransport, load_authorities

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
OnFault = Callable[[ServerFailedError], None]

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Size of one message. A listing of 10,000 tools has some 5 MB, and so has the longest description reported so far."""
_STREAM_READ_S: Final = 300.0
"""Longest pause between two events; the SDK then opens the stream again."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


@asynccontextmanager
async def open_http_streams(
    url: str, headers: Mapping[str, str], timeout_s: float, on_fault: OnFault, addresses: AddressRule
) -> AsyncGenerator[Streams]:
    """Open the message streams of a server. `on_fault` receives errors that the SDK does not report."""
    # Compressed bodies are refused, because the size is counted before decompression.
    given = {**headers, "accept-encoding": "identity"}
    timeout = httpx.Timeout(timeout_s, read=_STREAM_READ_S)
    tls = await asyncio.to_thread(load_authorities)
    transport = _BoundedTransport(addresses, tls, on_fault)
    async with (
        httpx.AsyncClient(transport=transport, headers=given, timeout=timeout, trust_env=False) as client,
        streamable_http_client(url, http_client=client) as (read, write, _),
    ):
        yield read, write


class _BoundedTransport(GuardedTransport):
    def __init__(self, addresses: AddressRule, tls: ssl.SSLContext, on_fault: OnFault) -> None:
        super().__init__(addresses, tls)
        self._on_fault = on_fault

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await super().handle_async_request(request)
        except AddressRefusedError as error:
            raise self._fault(f"it is not called: {error}") from None
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise self._fault("it compresses its answers although the client does not accept that")
        body = response.stream
        assert isinstance(body, httpx.AsyncByteStream)  # noqa: S101 - httpx returns no other type here
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _BoundedStream(body, self._fault, by_event=events)
        return response

    def _fault(self, problem: str) -> ServerFailedError:
        error = ServerFailedError(problem)
        self._on_fault(error)
        return error


class _BoundedStream(httpx.AsyncByteStream):
    """Body of at most `MESSAGE_BYTES`. For a stream of events the limit applies to each event."""

    def __init__(
        self, body: httpx.AsyncByteStream, fault: Callable[[str], ServerFailedError], *, by_event: bool
    ) -> None:
        self._body = body
        self._fault = fault
        self._by_event = by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            ends = [chunk.rfind(end) + len(end) for end in _EVENT_ENDS if end in chunk] if self._by_event else []
            size = len(chunk) - max(ends) if ends else size + len(chunk)
            if size > MESSAGE_BYTES:
                raise self._fault(f"it sends a message of more than {MESSAGE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
