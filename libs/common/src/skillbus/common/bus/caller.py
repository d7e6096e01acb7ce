"""The caller's side of requests.

One inbox subscription serves all requests of a connection. When the connection is lost, pending requests do not wait
for replies that may never come: idempotent ones are sent again after the reconnect, the others fail. Reads whose answer
is late are sent once more, each copy with a reply subject of its own, and the first answer wins (`hedging`).

Requests to a service of the same process can skip the bus. In standalone a search asks the embedder and the learner,
which are in the same process; over the server each request and reply costs an encoding, two sockets, a decoding and
several turns of the event loop. `LocalEndpoints` hands over the values of the contract, which are frozen, unchanged.
Permits, deadlines, metrics and errors are the same as on the bus. The caller opts in with `allow_local`.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from contextlib import suppress
from typing import Final, Protocol, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.hedging import AnswerTimes
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ERROR_CLASSES, ErrorBody, ErrorCode, RequestError
from skillbus.contracts.message import JSON, Message

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_NO_RESPONDERS: Final = "503"
_OVERLOADED: Final = str(ERROR_CLASSES[ErrorCode.OVERLOADED].status)

log = structlog.get_logger(__name__)


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


class SentRequest:
    """A request that waits for its reply, and the copies of it that were sent."""

    __slots__ = ("body", "copies", "first_at", "headers", "is_refused", "reply", "sent", "subject", "timer", "times")

    def __init__(self, subject: str, body: bytes, headers: dict[str, str], times: AnswerTimes | None) -> None:
        """`times` are those of the endpoint if copies may be sent."""
        loop = asyncio.get_running_loop()
        self.subject = subject
        self.body = body
        self.headers = headers
        self.times = times
        self.reply: asyncio.Future[Msg] = loop.create_future()
        self.first_at = loop.time()
        self.sent: dict[str, float] = {}
        """Times when the copies were sent that may still be answered, by the last token of their reply subject."""
        self.copies = 0
        """Copies after the first one that were taken out of the budget."""
        self.is_refused = False
        """True if a replica said that it is overloaded."""
        self.timer: asyncio.TimerHandle | None = None

    def take_reply(self, key: str, message: Msg) -> None:
        """Take the reply to a copy. A refusal does not count while another copy may be answered."""
        sent_at = self.sent.pop(key)
        if self.reply.done():
            return
        if self.sent and self._is_refusal(message):
            return
        self.reply.set_result(message)
        if self.times is not None:
            self._note_answer(self.times, sent_at)

    def _is_refusal(self, message: Msg) -> bool:
        headers = message.headers or {}
        if headers.get(h.ERROR_CODE) == _OVERLOADED:
            self.is_refused = True
            return True
        if message.data or headers.get("Status") != _NO_RESPONDERS:
            return False
        if self.times is not None and self.copies:  # nobody has worked for it
            self.times.return_copy()
            self.copies -= 1
        return True

    def _note_answer(self, times: AnswerTimes, sent_at: float) -> None:
        now = asyncio.get_running_loop().time()
        times.note_answer(now - sent_at)
        waited_s = sent_at - self.first_at
        if self.copies and waited_s > 0 and times.note_copy_won(now, now - sent_at, waited_s, self.copies):
            log.warning("replica_does_not_answer", subject=self.subject, waited_ms=round(waited_s * 1000))


class Caller:
    """Sends requests and returns their replies, or raises `RequestError`."""

    def __init__(self, client: Client, local_endpoints: LocalEndpoints, *, has_replicas: bool = False) -> None:
        """`has_replicas` says that other processes answer the requests for `local_endpoints` too."""
        self._client = client
        self._local_endpoints = local_endpoints
        self._has_replicas = has_replicas
        self._name = str(client.options.get("name") or "")
        self._inbox = client.new_inbox()
        self._ids = itertools.count()
        self._pending: dict[str, SentRequest] = {}
        self._times: defaultdict[str, AnswerTimes] = defaultdict(AnswerTimes)
        self._copying: set[asyncio.Task[None]] = set()
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
        for request in self._pending.values():
            if not request.reply.done():
                request.reply.set_exception(ConnectionLostError())

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
        if allow_local and (local := self._local_endpoints.get(endpoint.subject)):
            try:
                return await _call_locally(local, endpoint, request, wait_s)
            except TimeoutError:
                raise _make_late_error(endpoint, wait_s) from None
        return _parse_reply(endpoint, await self._request(endpoint, request, wait_s, content_type))

    async def call_for_json(
        self, endpoint: Endpoint[RequestT, Message], request: RequestT, *, timeout_s: float | None = None
    ) -> bytes:
        """Send a request and return its reply as JSON, not parsed, for callers that only pass it on.

        Raises:
            RequestError: As `call`.
        """
        wait_s = h.remaining_s(endpoint.timeout_s if timeout_s is None else timeout_s)
        reply = await self._request(endpoint, request, wait_s, JSON)
        _raise_refusal(endpoint, reply)
        return reply.data

    async def _request(
        self, endpoint: Endpoint[RequestT, Message], request: RequestT, wait_s: float, content_type: str
    ) -> Msg:
        try:
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
                return await self._exchange(endpoint, body, headers)
        except TimeoutError:
            raise _make_late_error(endpoint, wait_s) from None

    async def _exchange(self, endpoint: Endpoint[Message, Message], body: bytes, headers: dict[str, str]) -> Msg:
        while True:
            try:
                return await self._send(endpoint, body, headers)
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

    async def _send(self, endpoint: Endpoint[Message, Message], body: bytes, headers: dict[str, str]) -> Msg:
        if not self._connected.is_set():
            raise ConnectionLostError
        # An endpoint of this process alone has no replica that could be quicker.
        is_hedged = endpoint.is_read and (self._has_replicas or endpoint.subject not in self._local_endpoints)
        times = self._times[endpoint.subject] if is_hedged else None
        request = SentRequest(endpoint.subject, body, headers, times)
        if times is not None:
            wait_s = times.begin_request(request.first_at)
            request.timer = asyncio.get_running_loop().call_later(wait_s, self._send_copy_if_due, request, times)
        try:
            await self._publish(request, request.first_at)
            return await request.reply
        finally:
            if request.timer is not None:
                request.timer.cancel()
            request.reply.cancel()  # so that no further copy is sent
            for key in request.sent:
                del self._pending[key]

    async def _publish(self, request: SentRequest, now: float) -> None:
        key = str(next(self._ids))
        self._pending[key] = request
        request.sent[key] = now
        await self._client.publish(request.subject, request.body, reply=f"{self._inbox}.{key}", headers=request.headers)

    def _send_copy_if_due(self, request: SentRequest, times: AnswerTimes) -> None:
        if request.reply.done() or request.is_refused:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if times.take_copy(now, request.copies):
            request.copies += 1
            task = loop.create_task(self._send_copy(request, now))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)
        request.timer = loop.call_later(times.get_wait(now), self._send_copy_if_due, request, times)

    async def _send_copy(self, request: SentRequest, now: float) -> None:
        if request.reply.done():
            return
        with suppress(NatsError):  # the first copy still waits, and learns of a lost connection
            await self._publish(request, now)

    async def _on_reply(self, message: Msg) -> None:
        key = message.subject[len(self._inbox) + 1 :]
        if (request := self._pending.pop(key, None)) is not None:
            request.take_reply(key, message)


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


def _make_late_error(endpoint: Endpoint[Message, Message], wait_s: float) -> RequestError:
    message = f"{endpoint.service} did not answer {endpoint.name} in {wait_s:.1f} s."
    return RequestError(ErrorCode.DEADLINE_EXCEEDED, message)


def _parse_reply(endpoint: Endpoint[RequestT, ReplyT], message: Msg) -> ReplyT:
    _raise_refusal(endpoint, message)
    content_type = (message.headers or {}).get(h.CONTENT_TYPE, JSON)
    return _decode_reply(endpoint, endpoint.reply, message.data, content_type)


def _raise_refusal(endpoint: Endpoint[RequestT, Message], message: Msg) -> None:
    """Raise the error that a reply says; return if it is the answer."""
    headers = message.headers or {}
    if not message.data and headers.get("Status") == _NO_RESPONDERS:
        raise RequestError(
            ErrorCode.UNAVAILABLE,
            f"No {endpoint.service} is running to answer {endpoint.name}.",
            details={"service": endpoint.service},
        )
    if h.ERROR_CODE not in headers:
        return
    error = _decode_reply(endpoint, ErrorBody, message.data, headers.get(h.CONTENT_TYPE, JSON)).error
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
