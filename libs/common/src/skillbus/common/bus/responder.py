"""The service's side of the request lane: the NATS services API with a task per message under a permit limit.

`nats.micro` answers `$SRV.PING/INFO/STATS`, but works through an endpoint's messages one after the other and drops
what is queued when it stops (ADR 0002). So the endpoint here starts a task per message, counts its own time, refuses
with 429 when all permits are taken, and drains when it stops.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro.request import Request
from nats.micro.service import Endpoint as MicroEndpoint
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.near import Near
from skillbus.common.metrics import BusMetrics
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, Message

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
DoneT = TypeVar("DoneT")

DEFAULT_PERMITS: Final = 256
_NO_HEADERS: Final[Mapping[str, str]] = {}
_HEADER_CHARACTERS: Final = 200
_ERROR_BYTES: Final = 64 * 1024
_MESSAGE_CHARACTERS: Final = 2000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint and what answers it, at most `permits` messages at a time. Made by `route`."""

    endpoint: Endpoint[Message, Message]
    handle: Callable[[Message], Awaitable[Message]]
    """From a request of the endpoint to its reply."""
    permits: int


def route(
    endpoint: Endpoint[RequestT, ReplyT],
    handle: Callable[[RequestT], Awaitable[ReplyT]],
    permits: int = DEFAULT_PERMITS,
) -> Route:
    """A route whose handler gets the endpoint's request and gives its reply."""

    async def checked(request: Message) -> ReplyT:
        if not isinstance(request, endpoint.request):
            raise TypeError(f"{endpoint.name} takes {endpoint.request.__name__}, not {type(request).__name__}")
        return await handle(request)

    return Route(endpoint, checked, permits)


ToWire = Callable[[Exception], RequestError | None]
"""A service's own errors as callers get them; None for those it does not know."""


def _unknown(_: Exception) -> None:
    return None


class _TaskEndpoint(MicroEndpoint):
    """An endpoint of `nats.micro` that runs its messages side by side."""

    _last_error: str | None  # type: ignore[assignment]  # nats-py annotates its None only

    def __init__(self, service: Service, route: Route, metrics: BusMetrics, to_wire: ToWire) -> None:
        endpoint = route.endpoint
        config = EndpointConfig(
            name=endpoint.name, subject=endpoint.subject, queue_group=endpoint.service, handler=_unused
        )
        super().__init__(service, config)
        self._route = route
        self._to_wire = to_wire
        self._metrics = metrics.of(endpoint.service, endpoint.name)
        self._tasks: set[asyncio.Task[object]] = set()

    async def start(self) -> None:
        await self._start()

    async def drain(self) -> None:
        """Take no more messages, and wait until those that were taken are answered."""
        if self._subscription is not None:
            await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py lacks the annotation
            self._subscription = None
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _handle_request(self, msg: Msg) -> None:
        self._num_requests += 1
        if refused := self._full():
            await self._respond_error(msg, refused)
            return
        self._work(self._answer(msg))

    def take(self, request: Message, until: float) -> asyncio.Future[Message | RequestError]:
        """As `near.NearEndpoint`."""
        self._num_requests += 1
        if refused := self._full():
            self._note_error(refused)
            raise refused
        return self._work(self._answer_near(request, until))

    def _full(self) -> RequestError | None:
        if len(self._tasks) < self._route.permits:
            return None
        said = f"All {self._route.permits} permits of {self._route.endpoint.name} are taken: try again later."
        return RequestError(ErrorCode.OVERLOADED, said)

    def _work(self, answer: Coroutine[object, object, DoneT]) -> asyncio.Task[DoneT]:
        task = asyncio.create_task(answer)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer_near(self, request: Message, until: float) -> Message | RequestError:
        start_ns = time.perf_counter_ns()
        try:
            reply = await self._in_time(until, request)
            self._metrics.served("ok", start_ns)
        except Exception as error:  # noqa: BLE001 - as `_answer`
            refused = self._refusal(error)
            self._note_error(refused)
            self._metrics.served(refused.code, start_ns)
            return refused
        else:
            return reply
        finally:
            self._note_time(start_ns)

    async def _answer(self, msg: Msg) -> None:
        start_ns = time.perf_counter_ns()
        headers: Mapping[str, str] = msg.headers or _NO_HEADERS
        try:
            reply = await self._handled(msg, headers)
            wanted = headers.get(h.ACCEPT) or headers.get(h.CONTENT_TYPE)
            content_type = MSGPACK if wanted == MSGPACK else JSON
            # JSON is what a body is unless a header says otherwise: reading headers is the costliest part of a message.
            said = None if content_type == JSON else {h.CONTENT_TYPE: content_type}
            await self._respond(msg, encode(reply, content_type), said)
            self._metrics.served("ok", start_ns)
        except Exception as error:  # noqa: BLE001 - logged with its traceback by _refusal
            # The boundary: whatever a handler did not foresee still gets its caller an answer.
            refused = self._refusal(error)
            await self._respond_error(msg, refused)
            self._metrics.served(refused.code, start_ns)
        finally:
            self._note_time(start_ns)

    def _note_time(self, start_ns: int) -> None:
        self._processing_time += time.perf_counter_ns() - start_ns
        self._average_processing_time = self._processing_time // self._num_requests

    def _note_error(self, error: RequestError) -> None:
        self._num_errors += 1
        self._last_error = f"{error.code}: {error.message}"
        log.info("request_refused", endpoint=self._route.endpoint.name, code=error.code, message=error.message[:500])

    def _refusal(self, error: Exception) -> RequestError:
        known = error if isinstance(error, RequestError) else self._to_wire(error)
        if known is not None:
            return known
        endpoint = self._route.endpoint
        log.error("request_failed", endpoint=endpoint.name, service=endpoint.service, exc_info=error)
        return RequestError(ErrorCode.INTERNAL, f"{endpoint.service} failed at {endpoint.name}; its log says why.")

    async def _handled(self, msg: Msg, headers: Mapping[str, str]) -> Message:
        try:
            until = h.deadline_of(headers)
        except ValueError:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"{h.DEADLINE_MS} is not a number: send Unix time in milliseconds."
            ) from None
        h.traceparent.set(headers.get(h.TRACEPARENT))
        request = decode(self._route.endpoint.request, msg.data, headers.get(h.CONTENT_TYPE, JSON))
        return await self._in_time(until, request)

    async def _in_time(self, until: float | None, request: Message) -> Message:
        if until is not None:
            if until <= time.time():
                raise RequestError(ErrorCode.DEADLINE_EXCEEDED, "The deadline passed before the work was begun.")
            h.deadline.set(until)
        return await self._route.handle(request)

    async def _respond(self, msg: Msg, body: bytes, headers: dict[str, str] | None) -> None:
        if not msg.reply:
            return
        limit = self._service._client.max_payload  # noqa: SLF001 - nats.micro keeps its client to itself
        if len(body) > limit:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"The reply is {len(body)} bytes, over the {limit} that NATS takes."
            )
        await self._service._client.publish(msg.reply, body, headers=headers)  # noqa: SLF001 - as above

    async def _respond_error(self, msg: Msg, error: RequestError) -> None:
        self._note_error(error)
        said = error.message[:_HEADER_CHARACTERS].encode("ascii", "replace").decode().replace("\n", " ")
        headers = {h.ERROR: said.replace("\r", " "), h.ERROR_CODE: str(error.status), h.CONTENT_TYPE: JSON}
        await self._respond(msg, _body_of(error), headers)


def _body_of(error: RequestError) -> bytes:
    """The body of an error reply. What a request says comes back in it, so that it is cut before it is too large."""
    body = encode(error.body())
    if len(body) <= _ERROR_BYTES:
        return body
    shorter = f"{error.message[:_MESSAGE_CHARACTERS]}…"
    return encode(RequestError(error.code, shorter, retryable=error.retryable).body())


async def _unused(_: Request) -> None:
    raise NotImplementedError("messages are handled by _TaskEndpoint")


class Responder:
    """A service on the bus: its endpoints, and its answers to discovery."""

    def __init__(self, client: Client, name: str, version: str, metrics: BusMetrics, near: Near | None = None) -> None:
        self._client = client
        self._near = near or Near()
        self._metrics = metrics
        self._added: list[tuple[str, _TaskEndpoint]] = []
        self._service = Service(client, ServiceConfig(name=f"skillbus-{name}", version=version))

    async def start(self, *routes: Route, to_wire: ToWire = _unknown) -> None:
        """Answer these endpoints from now on. `to_wire` turns the service's own errors into those of the contract."""
        await self._service.start()
        for route in routes:
            endpoint = _TaskEndpoint(self._service, route, self._metrics, to_wire)
            await endpoint.start()
            self._near.add(route.endpoint.subject, endpoint)
            self._added.append((route.endpoint.subject, endpoint))
            self._service._endpoints.append(endpoint)  # noqa: SLF001 - add_endpoint would make its serial kind
        await self._client.flush()

    async def drain(self) -> None:
        """Stop taking requests and answer those that were taken."""
        for subject, endpoint in self._added:
            self._near.remove(subject, endpoint)
        endpoints = self._service._endpoints  # noqa: SLF001 - as above
        self._service._endpoints = []  # noqa: SLF001 - else stop() would unsubscribe what is drained
        await asyncio.gather(*(endpoint.drain() for endpoint in endpoints))
        if self._client.is_connected:
            await self._service.stop()
            await self._client.flush()
