"""The caller's side of the request lane.

One inbox subscription serves all requests of a connection. When the connection is lost, requests in flight do not
wait for replies that may never come: those that may be sent twice are sent again once it is back, the rest fail.
"""

import asyncio
import itertools
import time
from typing import Final, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.near import Near, NearEndpoint
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorBody, ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_NO_RESPONDERS: Final = "503"


class ConnectionLostError(Exception):
    """The connection went away while a reply was awaited."""


class Caller:
    """Sends requests and gives their replies as values, or raises `RequestError`."""

    def __init__(self, client: Client, near: Near) -> None:
        self._client = client
        self._near = near
        self._inbox = client.new_inbox()
        self._ids = itertools.count()
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._connected = asyncio.Event()

    async def open(self) -> None:
        """Subscribe to the replies."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_reply)
        self._connected.set()

    def connection_restored(self) -> None:
        """Send on what waits for the connection."""
        self._connected.set()

    def connection_lost(self) -> None:
        """Fail what is in flight, so that it can be sent again or answered."""
        self._connected.clear()
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ConnectionLostError())

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
        near: bool = False,
    ) -> ReplyT:
        """Ask and wait for the answer.

        Args:
            endpoint: Which request.
            request: Its body.
            timeout_s: How long to wait, in seconds; the endpoint's own time if absent. A request that is made while
                another is answered never waits longer than that one may.
            content_type: How request and reply are encoded.
            near: Whether a service of this process may be handed the request, and its reply be taken, as they are.

        Raises:
            RequestError: What the responder said; or `unavailable` when nobody answers or the connection is down,
                `deadline_exceeded` when the time is over, `payload_too_large` when the body is over the server's limit.
        """
        wait_s = h.remaining_s(endpoint.timeout_s if timeout_s is None else timeout_s)
        if near and (there := self._near.find(endpoint.subject)):
            return await self._of(there, endpoint, request, wait_s)
        body = encode(request, content_type)
        headers = {h.DEADLINE_MS: str(int((time.time() + wait_s) * 1000))}
        if content_type != JSON:
            headers[h.CONTENT_TYPE] = content_type
        if trace := h.traceparent.get():
            headers[h.TRACEPARENT] = trace
        try:
            async with asyncio.timeout(max(wait_s, 0)):
                reply = await self._exchange(endpoint, body, headers)
        except TimeoutError:
            raise _late(endpoint, wait_s) from None
        return self._read(endpoint, reply)

    async def _of(
        self, there: NearEndpoint, endpoint: Endpoint[RequestT, ReplyT], request: RequestT, wait_s: float
    ) -> ReplyT:
        """The answer of a service of this process."""
        answer = there.take(request, time.time() + wait_s)
        try:
            async with asyncio.timeout(max(wait_s, 0)):
                said = await asyncio.shield(answer)  # it is answered whether somebody waits or not, as over the bus
        except TimeoutError:
            raise _late(endpoint, wait_s) from None
        if isinstance(said, RequestError):
            raise RequestError(said.code, said.message, details=said.details, retryable=said.retryable)
        if not isinstance(said, endpoint.reply):
            raise TypeError(f"{endpoint.name} gives {endpoint.reply.__name__}, not {type(said).__name__}")
        return said

    async def _exchange(self, endpoint: Endpoint[Message, Message], body: bytes, headers: dict[str, str]) -> Msg:
        while True:
            try:
                return await self._send(endpoint.subject, body, headers)
            except ConnectionLostError:
                if not endpoint.idempotent:
                    raise RequestError(
                        ErrorCode.UNAVAILABLE,
                        f"The connection to NATS was lost while {endpoint.name} ran; it may or may not have been done.",
                    ) from None
            except MaxPayloadError as error:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The request is {len(body)} bytes, over the {self._client.max_payload} that NATS takes: "
                    "put what is large into the object store.",
                ) from error
            except NatsError as error:
                raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not there: {error}") from error
            await self._connected.wait()

    async def _send(self, subject: str, body: bytes, headers: dict[str, str]) -> Msg:
        if not self._connected.is_set():
            raise ConnectionLostError
        key = str(next(self._ids))
        reply: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[key] = reply
        try:
            await self._client.publish(subject, body, reply=f"{self._inbox}.{key}", headers=headers)
            return await reply
        finally:
            del self._waiting[key]

    async def _on_reply(self, message: Msg) -> None:
        reply = self._waiting.get(message.subject[len(self._inbox) + 1 :])
        if reply is not None and not reply.done():
            reply.set_result(message)

    def _read(self, endpoint: Endpoint[RequestT, ReplyT], message: Msg) -> ReplyT:
        headers = message.headers or {}
        if not message.data and headers.get("Status") == _NO_RESPONDERS:
            raise RequestError(
                ErrorCode.UNAVAILABLE,
                f"No {endpoint.service} is running to answer {endpoint.name}.",
                details={"service": endpoint.service},
            )
        content_type = headers.get(h.CONTENT_TYPE, JSON)
        if h.ERROR_CODE not in headers:
            return _understood(endpoint, endpoint.reply, message.data, content_type)
        error = _understood(endpoint, ErrorBody, message.data, content_type).error
        raise RequestError(error.code, error.message, details=error.details, retryable=error.retryable)


def _late(endpoint: Endpoint[Message, Message], wait_s: float) -> RequestError:
    return RequestError(
        ErrorCode.DEADLINE_EXCEEDED, f"{endpoint.service} did not answer {endpoint.name} in {wait_s:.1f} s."
    )


def _understood(endpoint: Endpoint[Message, Message], kind: type[MessageT], data: bytes, content_type: str) -> MessageT:
    """A reply as a value. That it cannot be read is the responder's fault, not that of the request."""
    try:
        return decode(kind, data, content_type)
    except RequestError as error:
        said = f"{endpoint.service} answered {endpoint.name} with something else than {kind.__name__}: {error.message}"
        raise RequestError(ErrorCode.INTERNAL, said) from error
