"""A connection of HTTP/1.1 that sends one request at a time.

A full HTTP client takes as much processor time for a search as the server does: on a machine that runs both, a load
generator would measure its client.
"""

import asyncio
import ssl
from typing import NamedTuple, cast

import httptools
import httpx


class HttpReply(NamedTuple):
    """Parts of a reply that a load generator looks at."""

    status: int
    body: bytes
    retry_after_s: int
    """Seconds of the header Retry-After; 0 without it."""


class ServerAddress(NamedTuple):
    """Address that connections are opened to; `tls` is None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None


def parse_address(url: httpx.URL) -> ServerAddress:
    """Return the address in a URL. Certificates are checked as by the rest of the command line."""
    is_https = url.scheme == "https"
    return ServerAddress(
        url.host, url.port or (443 if is_https else 80), httpx.create_ssl_context() if is_https else None
    )


def encode_request(request: httpx.Request) -> bytes:
    """Return a request as it goes over the connection."""
    lines = [f"{request.method} ".encode() + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join((*lines, b"", request.content))


class HttpSender:
    """One connection. It is opened by the first request, and again after the server has closed it."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._connection: _HttpConnection | None = None

    async def send(self, request: bytes) -> HttpReply:
        """Send a request and return its reply. After an error or a cancellation, close the sender.

        Raises:
            OSError: The server cannot be reached, or closed the connection before it had answered.
        """
        if self._connection is None or self._connection.is_closed:
            host, port, tls = self._address
            _, self._connection = await asyncio.get_running_loop().create_connection(
                _HttpConnection, host, port, ssl=tls
            )
        return await self._connection.send(request)

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _HttpConnection(asyncio.Protocol):
    """Parses replies, and resolves the future of the request that waits."""

    def __init__(self) -> None:
        self.is_closed = False
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._retry_after_s = 0
        self._reply: asyncio.Future[HttpReply] | None = None
        self._transport: asyncio.WriteTransport | None = None

    def send(self, request: bytes) -> "asyncio.Future[HttpReply]":
        self._reply = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._transport.write(request)
        return self._reply

    def close(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"not a reply of HTTP/1.1: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._fail(exc or ConnectionResetError("the server closed the connection"))

    def on_message_begin(self) -> None:
        self._body.clear()
        self._retry_after_s = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after" and value.isdigit():
            self._retry_after_s = int(value)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        reply = HttpReply(self._parser.get_status_code(), bytes(self._body), self._retry_after_s)
        if not self._parser.should_keep_alive():
            self.close()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)

    def _fail(self, error: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)
