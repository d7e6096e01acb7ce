"""Limit of request bodies, enforced while they stream, and delivery of replies that precede the end of a body.

If a connection is closed while the other side still writes, its kernel discards the unread reply. So after an early
reply, the rest of the body is read and dropped for a moment before the connection is closed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.adapters.problem_response import make_problem_response
from skillbus.gateway.domain.problem import make_problem

LINGER_S: Final = 2.0
LINGER_BYTES: Final = 64 * 1024 * 1024
LimitOf = Callable[[str, str], int]
"""Function from method and path to the limit in bytes."""


class BodyTooLargeError(HTTPException):
    """The body exceeds its limit. An HTTPException, because FastAPI passes these on while it reads a body."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(413, f"The body exceeds the limit of {limit_bytes} bytes.")


class BodyLimit:
    """ASGI layer that limits the body of each request."""

    def __init__(self, app: ASGIApp, limit_of: LimitOf) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._limit_of(scope["method"], scope["path"]), scope, receive, send)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > exchange.limit_bytes:
            refused = RequestError(ErrorCode.PAYLOAD_TOO_LARGE, str(BodyTooLargeError(exchange.limit_bytes).detail))
            await make_problem_response(make_problem(refused, scope["path"]))(scope, exchange.receive, exchange.send)
            return
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its reply."""

    def __init__(self, limit_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self.limit_bytes = limit_bytes
        self._receive = receive
        self._send = send
        self._received_bytes = 0
        self._ended = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        """Return the next part of the body. Raises BodyTooLargeError if the body exceeds its limit with it."""
        message = await self._next()
        if self._received_bytes > self.limit_bytes:
            raise BodyTooLargeError(self.limit_bytes)
        return message

    async def send(self, message: Message) -> None:
        """Pass on the reply, and close the connection after an early one."""
        if not self._ended and message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if self._ended or not last:
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        until_bytes = self._received_bytes + LINGER_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self._ended and self._received_bytes < until_bytes:
                    await self._next()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> Message:
        message = await self._receive()
        self._received_bytes += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        return message
