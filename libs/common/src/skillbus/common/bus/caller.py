"""The caller's side of requests.

One inbox subscription serves all requests of a connection. When the connection is lost, pending requests do not wait
for replies that may never come: idempotent ones are sent again after the reconnect, the others fail.

Requests to a service of the same process can skip the bus. In standalone a search asks the embedder and the learner,
which are in the same process; over the server each request and reply costs an encoding, two sockets, a decoding and
several turns of the event loop. `LocalEndpoints` hands over the values of the contract, which are frozen, unchanged.
Permits, deadlines, metrics and errors are the same as on the bus. The caller opts in with `allow_local`.
"""

import asyncio
import itertools
import time
from typing import Final, Protocol, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorBody, ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_NO_RESPONDERS: Final = "503"


class ConnectionLostError(Exception):
    """The connection was lost while a request waited for its reply."""


class LocalEndpoint(Protocol):
    """An endpoint of this process."""

    def accept_request(self, request: Message, until: float) -> asyncio.Future[Message | RequestError]:
        """Answer a request by `until`, in Unix seconds, even if the caller stops waiting.

        Raises RequestError when all permits are taken.
        """
        ...


LocalEndpoints = dict[str, LocalEndpoint]
"""Endpoints of this process by subject, while they accept requests."""


class Caller:
    """Sends requests and returns their replies, or raises `RequestError`."""

    def __init__(self, client: Client, local_endpoints: LocalEndpoints) -> None:
        self._client = client
        self._local_endpoints = local_endpoints
        self._name = str(client.options.get("name") or "")
        self._inbox = client.new_inbox()
        self._ids = itertools.count()
        self._pending: dict[str, asyncio.Future[Msg]] = {}
        self._connected = asyncio.Event()

    async def open(self) -> None:
        """Subscribe to the replies."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_reply)
        self._connected.set()

    def connection_restored(self) -> None:
        """Send the requests that wait for the connection."""
        self._connected.set()

    def connection_lost(self) -> None:
        """Interrupt the pending requests, so that they are repeated or answered with an error."""
        self._connected.clear()
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(ConnectionLostError())

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
        allow_local: bool = False,
    ) -> ReplyT:
        """Send a request and return its reply.

        Args:
            timeout_s: Seconds to wait; by default the timeout of the endpoint. A request that is made while another
                one is answered never waits beyond the deadline of that one.
            content_type: Encoding of request and reply.
            allow_local: Hand the request directly to a service of this process, if there is one.

        Raises:
            RequestError: The error of the responder; or `unavailable` when nobody answers or the connection is down,
                `deadline_exceeded` when the time is over, `payload_too_large` when the body exceeds the server's limit.
        """
        wait_s = h.remaining_s(endpoint.timeout_s if timeout_s is None else timeout_s)
        try:
            if allow_local and (local := self._local_endpoints.get(endpoint.subject)):
                return await _call_locally(local, endpoint, request, wait_s)
            body = encode(request, content_type)
            headers = {h.DEADLINE_MS: str(int((time.time() + wait_s) * 1000))}
            if content_type != JSON:
                headers[h.CONTENT_TYPE] = content_type
            if trace := h.traceparent.get():
                headers[h.TRACEPARENT] = trace
            if project := h.project.get():
                headers[h.PROJECT] = project
            if endpoint.needs_origin:
                headers |= h.make_origin_headers(self._name)
            async with asyncio.timeout(max(wait_s, 0)):
                reply = await self._exchange(endpoint, body, headers)
        except TimeoutError:
            message = f"{endpoint.service} did not answer {endpoint.name} in {wait_s:.1f} s."
            raise RequestError(ErrorCode.DEADLINE_EXCEEDED, message) from None
        return _parse_reply(endpoint, reply)

    async def _exchange(self, endpoint: Endpoint[Message, Message], body: bytes, headers: dict[str, str]) -> Msg:
        while True:
            try:
                return await self._send(endpoint.subject, body, headers)
            except ConnectionLostError:
                if not endpoint.idempotent:
                    raise RequestError(
                        ErrorCode.UNAVAILABLE,
                        f"The connection to NATS was lost during {endpoint.name}; it may or may not have been done.",
                    ) from None
            except MaxPayloadError as error:
                raise RequestError(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The request has {len(body)} bytes, over the {self._client.max_payload} that NATS accepts: "
                    "put large content into the object store.",
                ) from error
            except NatsError as error:
                raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not available: {error}") from error
            await self._connected.wait()

    async def _send(self, subject: str, body: bytes, headers: dict[str, str]) -> Msg:
        if not self._connected.is_set():
            raise ConnectionLostError
        key = str(next(self._ids))
        reply: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._pending[key] = reply
        try:
            await self._client.publish(subject, body, reply=f"{self._inbox}.{key}", headers=headers)
            return await reply
        finally:
            del self._pending[key]

    async def _on_reply(self, message: Msg) -> None:
        reply = self._pending.get(message.subject[len(self._inbox) + 1 :])
        if reply is not None and not reply.done():
            reply.set_result(message)


async def _call_locally(
    local: LocalEndpoint, endpoint: Endpoint[RequestT, ReplyT], request: RequestT, wait_s: float
) -> ReplyT:
    answer = local.accept_request(request, time.time() + wait_s)
    async with asyncio.timeout(max(wait_s, 0)):
        reply = await asyncio.shield(answer)  # the endpoint finishes also without a waiting caller, as over the bus
    if isinstance(reply, RequestError):
        raise RequestError(reply.code, reply.message, details=reply.details, retryable=reply.retryable)
    if not isinstance(reply, endpoint.reply):
        raise TypeError(f"{endpoint.name} returns {endpoint.reply.__name__}, not {type(reply).__name__}")
    return reply


def _parse_reply(endpoint: Endpoint[RequestT, ReplyT], message: Msg) -> ReplyT:
    headers = message.headers or {}
    if not message.data and headers.get("Status") == _NO_RESPONDERS:
        raise RequestError(
            ErrorCode.UNAVAILABLE,
            f"No {endpoint.service} is running to answer {endpoint.name}.",
            details={"service": endpoint.service},
        )
    content_type = headers.get(h.CONTENT_TYPE, JSON)
    if h.ERROR_CODE not in headers:
        return _decode_reply(endpoint, endpoint.reply, message.data, content_type)
    error = _decode_reply(endpoint, ErrorBody, message.data, content_type).error
    raise RequestError(error.code, error.message, details=error.details, retryable=error.retryable)


def _decode_reply(
    endpoint: Endpoint[Message, Message], kind: type[MessageT], data: bytes, content_type: str
) -> MessageT:
    """Decode a reply. A reply that does not parse is the responder's fault, so the error is `internal`."""
    try:
        return decode(kind, data, content_type)
    except RequestError as error:
        message = f"{endpoint.service} answered {endpoint.name} with something other than {kind.__name__}"
        raise RequestError(ErrorCode.INTERNAL, f"{message}: {error.message}") from error
