"""The service's side of requests: endpoints of the NATS services API that handle messages concurrently.

`nats.micro` answers `$SRV.PING/INFO/STATS`, but handles the messages of an endpoint one after the other and drops
queued ones when it stops (ADR 0002). The endpoint here starts a task for each message, measures its own time, refuses
with 429 when all permits are taken, and drains when it stops.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro.request import Request
from nats.micro.service import Endpoint as MicroEndpoint
from nats.micro.service import EndpointConfig, Service, ServiceConfig

from skillbus.common.admission.gate import LOWEST, AdmissionGate, ServerBusyError
from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.common.bus import headers as h
from skillbus.common.bus.caller import LocalEndpoints
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.common.bus.disk_space import StorageRoom, is_disk_full
from skillbus.common.bus.metrics import BusMetrics
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, Message

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
AnswerT = TypeVar("AnswerT")

DEFAULT_PERMITS: Final = 256
_NO_HEADERS: Final[Mapping[str, str]] = {}
_HEADER_CHARACTERS: Final = 200
_ERROR_BYTES: Final = 64 * 1024
_MESSAGE_CHARACTERS: Final = 2000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint and its handler, which runs for at most `permits` messages at a time. Made by `route`."""

    endpoint: Endpoint[Message, Message]
    handle: Callable[[Message], Awaitable[Message]]
    permits: int
    adapts: bool


def route(
    endpoint: Endpoint[RequestT, ReplyT],
    handle: Callable[[RequestT], Awaitable[ReplyT]],
    permits: int = DEFAULT_PERMITS,
    *,
    adapts: bool = False,
) -> Route:
    """Make a route with a handler that takes the endpoint's request and returns its reply.

    With `adapts`, as many of the messages are handled at a time as their latency allows, and the others wait for
    their turn. It is for work whose time is its own, not that of somebody who is waited for.
    """

    async def checked(request: Message) -> ReplyT:
        if not isinstance(request, endpoint.request):
            raise TypeError(f"{endpoint.name} takes {endpoint.request.__name__}, not {type(request).__name__}")
        return await handle(request)

    return Route(endpoint, checked, permits, adapts)


ToWire = Callable[[Exception], RequestError | None]
"""Translates a service's own errors into errors of the contract; returns None for others."""


@cache
def _dump_schema(kind: type[Message], mode: Literal["validation", "serialization"]) -> str:
    """Return the JSON schema of a message, built the first time: those of all services take 0.1 s."""
    return json.dumps(kind.model_json_schema(mode=mode))


class _TaskEndpoint(MicroEndpoint):
    """An endpoint of `nats.micro` that handles its messages concurrently."""

    _last_error: str | None  # type: ignore[assignment]  # nats-py annotates its None only

    def __init__(
        self,
        service: Service,
        route: Route,
        metrics: BusMetrics,
        to_wire: ToWire,
        disk: StorageRoom | None,
        recorder: ActRecorder | None,
    ) -> None:
        endpoint = route.endpoint
        config = EndpointConfig(
            name=endpoint.name, subject=endpoint.subject, queue_group=endpoint.service, handler=_unused
        )
        super().__init__(service, config)
        self._route = route
        self._to_wire = to_wire
        self._disk = disk if endpoint.stores_data else None
        self._recorder = recorder
        self._metrics = metrics.get_endpoint(endpoint.service, endpoint.name)
        self._tasks: set[asyncio.Task[object]] = set()
        self._gate: AdmissionGate | None = None
        if route.adapts:
            name = f"{endpoint.service}.{endpoint.name}"
            self._gate = AdmissionGate(
                name, metrics.admission, lowest=min(LOWEST, route.permits), highest=route.permits
            )

    @property
    def _metadata(self) -> dict[str, str]:
        """Summary and schemas of the endpoint, for `$SRV.INFO`."""
        endpoint = self._route.endpoint
        return {
            "summary": endpoint.summary,
            "request_schema": _dump_schema(endpoint.request, "validation"),
            "reply_schema": _dump_schema(endpoint.reply, "serialization"),
        }

    @_metadata.setter
    def _metadata(self, _: object) -> None:  # nats.micro assigns what the configuration says: nothing
        pass

    async def drain(self) -> None:
        """Accept no more messages, and wait until the accepted ones are answered."""
        if self._subscription is not None:
            await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py lacks the annotation
            self._subscription = None
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _handle_request(self, msg: Msg) -> None:
        self._num_requests += 1
        if refusal := self._find_refusal():
            await self._respond_error(msg, refusal)
            return
        self._start_task(self._answer(msg))

    def accept_request(self, request: Message, until: float) -> asyncio.Future[Message | RequestError]:
        """Implement `LocalEndpoint`."""
        self._num_requests += 1
        if refusal := self._find_refusal():
            self._record_error(refusal)
            raise refusal
        return self._start_task(self._answer_locally(request, until))

    def _find_refusal(self) -> RequestError | None:
        if len(self._tasks) >= self._route.permits:
            message = f"All {self._route.permits} permits of {self._route.endpoint.name} are taken: try again later."
            return RequestError(ErrorCode.OVERLOADED, message)
        if self._disk is None:
            return None
        try:
            self._disk.check()
        except RequestError as error:
            return error
        return None

    def _start_task(self, answer: Coroutine[object, object, AnswerT]) -> asyncio.Task[AnswerT]:
        task = asyncio.create_task(answer)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer_locally(self, request: Message, until: float) -> Message | RequestError:
        start_ns = time.perf_counter_ns()
        try:
            reply = await self._handle_before(until, request)
            self._metrics.count_answer("ok", start_ns)
        except Exception as error:  # noqa: BLE001 - as `_answer`
            refusal = self._translate_error(error)
            self._record_error(refusal)
            self._metrics.count_answer(refusal.code, start_ns)
            return refusal
        else:
            return reply
        finally:
            self._record_time(start_ns)

    async def _answer(self, msg: Msg) -> None:
        start_ns = time.perf_counter_ns()
        headers: Mapping[str, str] = msg.headers or _NO_HEADERS
        try:
            reply = await self._handle(msg, headers)
            accepted = headers.get(h.ACCEPT) or headers.get(h.CONTENT_TYPE)
            content_type = MSGPACK if accepted == MSGPACK else JSON
            # A body without headers is JSON: parsing headers is the most expensive part of a message.
            reply_headers = None if content_type == JSON else {h.CONTENT_TYPE: content_type}
            await self._respond(msg, encode(reply, content_type), reply_headers)
            self._metrics.count_answer("ok", start_ns)
        except Exception as error:  # noqa: BLE001 - logged with its traceback by _translate_error
            # The reply boundary: the caller gets an answer also after an unforeseen error.
            refusal = self._translate_error(error)
            await self._respond_error(msg, refusal)
            self._metrics.count_answer(refusal.code, start_ns)
        finally:
            self._record_time(start_ns)

    def _record_time(self, start_ns: int) -> None:
        self._processing_time += time.perf_counter_ns() - start_ns
        self._average_processing_time = self._processing_time // self._num_requests

    def _record_error(self, error: RequestError) -> None:
        self._num_errors += 1
        self._last_error = f"{error.code}: {error.message}"
        if not isinstance(error, ServerBusyError):
            log.info(
                "request_refused", endpoint=self._route.endpoint.name, code=error.code, message=error.message[:500]
            )

    def _translate_error(self, error: Exception) -> RequestError:
        known = error if isinstance(error, RequestError) else self._to_wire(error)
        if known is not None:
            return known
        if is_disk_full(error):
            return RequestError(ErrorCode.STORAGE_FULL, "The disk of the service is full: free some space on it.")
        endpoint = self._route.endpoint
        log.error("request_failed", endpoint=endpoint.name, service=endpoint.service, exc_info=error)
        return RequestError(ErrorCode.INTERNAL, f"{endpoint.service} failed at {endpoint.name}; see its log.")

    async def _handle(self, msg: Msg, headers: Mapping[str, str]) -> Message:
        try:
            until = h.parse_deadline(headers)
        except ValueError:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"{h.DEADLINE_MS} is not a number: send Unix time in milliseconds."
            ) from None
        h.traceparent.set(headers.get(h.TRACEPARENT))
        if self._route.endpoint.needs_origin:
            h.origin.set(h.parse_origin(headers))
        request = decode(self._route.endpoint.request, msg.data, headers.get(h.CONTENT_TYPE, JSON))
        return await self._handle_before(until, request)

    async def _handle_before(self, until: float | None, request: Message) -> Message:
        if self._gate is None:
            return await self._handle_now(until, request)
        permit = await self._gate.admit()
        try:
            return await self._handle_now(until, request)
        finally:
            self._gate.leave(permit)

    async def _handle_now(self, until: float | None, request: Message) -> Message:
        if until is not None:
            if until <= time.time():
                raise RequestError(ErrorCode.DEADLINE_EXCEEDED, "The deadline passed before the work was started.")
            h.deadline.set(until)
        endpoint = self._route.endpoint
        if endpoint.act is None or self._recorder is None:
            return await self._route.handle(request)
        return await self._recorder.carry_out(endpoint.name, endpoint.act, request, self._route.handle, self._to_wire)

    async def _respond(self, msg: Msg, body: bytes, headers: dict[str, str] | None) -> None:
        if not msg.reply:
            return
        limit = self._service._client.max_payload  # noqa: SLF001 - nats.micro has no public attribute
        if len(body) > limit:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"The reply is {len(body)} bytes, over the {limit} that NATS accepts."
            )
        await self._service._client.publish(msg.reply, body, headers=headers)  # noqa: SLF001 - as above

    async def _respond_error(self, msg: Msg, error: RequestError) -> None:
        self._record_error(error)
        summary = error.message[:_HEADER_CHARACTERS].encode("ascii", "replace").decode()
        summary = summary.replace("\n", " ").replace("\r", " ")
        headers = {h.ERROR: summary, h.ERROR_CODE: str(error.status), h.CONTENT_TYPE: JSON}
        body = encode(error.to_body())
        if len(body) > _ERROR_BYTES:  # it repeats parts of the request
            shorter = f"{error.message[:_MESSAGE_CHARACTERS]}…"
            body = encode(RequestError(error.code, shorter, retryable=error.retryable).to_body())
        await self._respond(msg, body, headers)


async def _unused(_: Request) -> None:
    raise NotImplementedError("messages are handled by _TaskEndpoint")


class Responder:
    """The endpoints of one service, and its answers to discovery requests."""

    def __init__(
        self,
        client: Client,
        name: str,
        version: str,
        metrics: BusMetrics,
        local_endpoints: LocalEndpoints | None = None,
        *,
        disk: StorageRoom | None = None,
        recorder: ActRecorder | None = None,
        description: str = "",
    ) -> None:
        """Make the responder of a service. Without a recorder, administrative acts are not recorded."""
        self._client = client
        self._disk = disk
        self._local_endpoints: LocalEndpoints = {} if local_endpoints is None else local_endpoints
        self._metrics = metrics
        self._recorder = recorder
        self._added: list[tuple[str, _TaskEndpoint]] = []
        self._service = Service(
            client, ServiceConfig(name=f"skillbus-{name}", version=version, description=description)
        )

    async def start(self, *routes: Route, to_wire: ToWire = lambda _: None) -> None:
        """Start to answer these routes. `to_wire` translates the service's own errors into those of the contract."""
        await self._service.start()
        for route in routes:
            endpoint = _TaskEndpoint(self._service, route, self._metrics, to_wire, self._disk, self._recorder)
            await endpoint._start()  # noqa: SLF001 - nats.micro has no public way
            self._local_endpoints[route.endpoint.subject] = endpoint
            self._added.append((route.endpoint.subject, endpoint))
            self._service._endpoints.append(endpoint)  # noqa: SLF001 - add_endpoint would make a serial endpoint
        await confirm_subscriptions(self._client)

    async def drain(self) -> None:
        """Stop accepting requests, and answer the accepted ones."""
        for subject, endpoint in self._added:
            if self._local_endpoints.get(subject) is endpoint:
                del self._local_endpoints[subject]
        endpoints = self._service._endpoints  # noqa: SLF001 - as above
        self._service._endpoints = []  # noqa: SLF001 - otherwise stop() would unsubscribe drained ones
        await asyncio.gather(*(endpoint.drain() for endpoint in endpoints))
        if self._client.is_connected:
            await self._service.stop()
            await self._client.flush()
