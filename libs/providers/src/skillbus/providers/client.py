"""Clients of providers: connections, concurrency limit, timeout, retries and circuit breaker."""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, Self, TypeVar

import httpx
import structlog
from pydantic import SecretStr

from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.transport import GuardedTransport, load_authorities, read_destination
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.registry import ProviderRecord
from skillbus.providers.breaker import Admission, CallVerdict, CircuitBreaker, Clock
from skillbus.providers.errors import (
    ErrorEventError,
    InputRefusedError,
    ProviderBusyError,
    ProviderFailedError,
    ReplyFormatError,
)
from skillbus.providers.events import ServerEvent
from skillbus.providers.exchange import ACCEPTED_ENCODING, ProviderRequest, exchange_once
from skillbus.providers.failure import Blame, Failure, classify_failure
from skillbus.providers.retry import RetrySchedule, parse_retry_after
from skillbus.providers.stream import EventStream, open_event_stream

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""Largest `ProviderRequest.reply_bytes` that callers should choose."""
EMBEDDINGS_AT_ONCE: Final = 4
CHATS_AT_ONCE: Final = 32
"""Requests to a provider without `max_concurrency`."""
_INLINE_BYTES: Final = 128 * 1024
"""Largest reply that is parsed in the event loop, in less than a millisecond. Larger ones are parsed in a thread."""
_KEEP_ALIVE_S: Final = 30.0

ReplyT = TypeVar("ReplyT")
_ClientKey = tuple[str, datetime, int]
"""Name and version of a provider, and when it was created: one that is registered again begins with version 1 again."""
ParseEvent = Callable[[ServerEvent], ReplyT | None]
"""Parses an event; None is the last one. Raises ReplyFormatError and ErrorEventError."""


@dataclass(frozen=True, slots=True)
class ClientTuning:
    """Retry and breaker settings, the same for all providers."""

    schedule: RetrySchedule = field(default_factory=RetrySchedule)
    breaker_failures: int = 5
    """Failed calls in a row, each after its retries, that open the breaker."""
    breaker_cool_down_s: float = 30.0
    clock: Clock = time.monotonic
    """Clock of the breaker."""
    jitter: Callable[[], float] = random.random
    """Uniform in [0, 1)."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stream_silence_s: float = 60.0
    """Shortest timeout for the first event of a stream, and between events. A provider's own is made for replies that
    are computed at once; a model may have to be loaded, and thinks before it writes."""
    stream_permit_s: float = 300.0
    """Timeout for the permit of a stream. Streams are long, so that waiting for one is no sign of a failure."""


class ProviderClient:
    """Client of one version of a provider's record, shared by its models. Owns the HTTP client that it is given."""

    def __init__(
        self, provider: ProviderRecord, http: httpx.AsyncClient, secrets: Secrets, tuning: ClientTuning
    ) -> None:
        self.name = provider.name
        self._key_reference = provider.api_key
        self._timeout_s = provider.timeout_s
        self._http = http
        self._secrets = secrets
        self._tuning = tuning
        self._permits = asyncio.Semaphore(provider.max_concurrency or EMBEDDINGS_AT_ONCE)
        self._stream_permits = asyncio.Semaphore(provider.max_concurrency or CHATS_AT_ONCE)
        self._breaker = CircuitBreaker(
            tuning.clock, failures=tuning.breaker_failures, cool_down_s=tuning.breaker_cool_down_s
        )

    async def post(self, request: ProviderRequest, parse: Callable[[bytes], ReplyT]) -> ReplyT:
        """Send a request and parse the reply, within the provider's `timeout_s` for all attempts.

        The wait for a permit (`max_concurrency`) has the same timeout again. `parse` runs in a thread for large
        replies.

        Raises:
            InputRefusedError: the provider refuses this input.
            ProviderFailedError: no usable answer in time, or the breaker is open.
            SecretUnreadableError: the key cannot be read.
        """
        await self._acquire_permit(self._permits, self._timeout_s)
        try:
            with self._admit_call() as admitted:
                attempt = partial(self._post_once, request, parse)
                return admitted.settle(await self._try_repeatedly(attempt, self._timeout_s))
        finally:
            self._permits.release()

    async def stream(self, request: ProviderRequest, parse: ParseEvent[ReplyT]) -> AsyncGenerator[ReplyT]:
        """Send a request and yield the parsed events of its reply, up to the last one, as they come.

        All attempts until the first event together, and the silence between events, may take `stream_silence_s`, or the
        provider's `timeout_s` if that is longer. After the first event nothing is repeated. Closing the generator ends
        the request.

        Raises:
            InputRefusedError: the provider refuses this input.
            ProviderFailedError: no usable answer in time, a stream that breaks off, or the breaker is open.
            SecretUnreadableError: the key cannot be read.
        """
        silence_s = max(self._timeout_s, self._tuning.stream_silence_s)
        await self._acquire_permit(self._stream_permits, self._tuning.stream_permit_s)
        try:
            with self._admit_call() as admitted:
                attempt = partial(self._begin_stream, request, parse, silence_s)
                begun = admitted.settle(await self._try_repeatedly(attempt, silence_s))
                try:
                    admitted.end_probe()
                    piece: ReplyT | Failure | None = begun.first
                    while piece is not None:
                        yield admitted.settle(piece)
                        piece = await _read_piece(begun.stream, parse, silence_s)
                        if isinstance(piece, Failure):
                            self._log_failure(request, piece, begun.started)
                finally:
                    await begun.stream.close()
        finally:
            self._stream_permits.release()

    async def close(self) -> None:
        await self._http.aclose()

    async def _acquire_permit(self, permits: asyncio.Semaphore, within_s: float) -> None:
        if not self._breaker.admits:  # also checked later, with the permit; here to avoid a pointless wait for one
            raise ProviderFailedError(self.name, self._breaker.describe_pause())
        problem = None
        try:
            async with asyncio.timeout(within_s):
                await permits.acquire()
        except TimeoutError:
            problem = f"is busy: no permit was free within {within_s:g} s; raise max_concurrency"
        if problem is not None:
            raise ProviderFailedError(self.name, problem)

    @contextmanager
    def _admit_call(self) -> Generator["_AdmittedCall"]:
        admission = self._breaker.admit_call()
        if admission is None:
            raise ProviderFailedError(self.name, self._breaker.describe_pause())
        call = _AdmittedCall(self.name, self._breaker, admission)
        try:
            yield call
        finally:
            self._breaker.settle_call(admission, call.verdict)

    async def _try_repeatedly(
        self, attempt: Callable[[float], Awaitable[ReplyT | Failure]], within_s: float
    ) -> ReplyT | Failure:
        """Make attempts, each with the same deadline in the loop's time, until one need not be repeated."""
        deadline = asyncio.get_running_loop().time() + within_s
        failed = 0
        while True:
            outcome = await attempt(deadline)
            if not isinstance(outcome, Failure) or not outcome.retryable:
                return outcome
            failed += 1
            left_s = deadline - asyncio.get_running_loop().time()
            requested_s = parse_retry_after(outcome.retry_after, time.time())
            delay_s = self._tuning.schedule.compute_delay_s(failed, requested_s, left_s, self._tuning.jitter())
            if delay_s is None:
                return outcome
            await self._tuning.sleep(delay_s)

    async def _post_once(
        self, request: ProviderRequest, parse: Callable[[bytes], ReplyT], deadline: float
    ) -> ReplyT | Failure:
        """Make one attempt, until `deadline` in the loop's time, and log a failure."""
        key = self._resolve_key(request)
        started = time.perf_counter()
        failure: Failure
        try:
            async with asyncio.timeout_at(deadline):
                answer = await exchange_once(self._http, request, self._key_reference, key)
        except TimeoutError:
            answer = Failure(f"did not answer in full within {self._timeout_s:g} s")
        if isinstance(answer, Failure):
            failure = answer
        else:
            try:
                return parse(answer) if len(answer) <= _INLINE_BYTES else await asyncio.to_thread(parse, answer)
            except ReplyFormatError as error:
                failure = Failure(str(error))
        self._log_failure(request, failure, started)
        return failure

    async def _begin_stream(
        self, request: ProviderRequest, parse: ParseEvent[ReplyT], within_s: float, deadline: float
    ) -> "_BegunStream[ReplyT] | Failure":
        """Make one attempt to get a first event, until `deadline` in the loop's time, and log a failure."""
        key = self._resolve_key(request)
        started = time.perf_counter()
        stream: EventStream | Failure | None = None
        piece: ReplyT | Failure | None = None
        try:
            async with asyncio.timeout_at(deadline):
                stream = await open_event_stream(self._http, request, self._key_reference, key)
                piece = stream if isinstance(stream, Failure) else await _read_piece(stream, parse, within_s)
            if isinstance(stream, EventStream) and piece is not None and not isinstance(piece, Failure):
                begun = _BegunStream(stream, piece, started)
                stream = None
                return begun
        except TimeoutError:
            piece = Failure(f"sent nothing within {within_s:g} s")
        finally:
            if isinstance(stream, EventStream):
                await stream.close()
        failure = piece if isinstance(piece, Failure) else Failure("sent no event", retryable=True)
        self._log_failure(request, failure, started)
        return failure

    def _resolve_key(self, request: ProviderRequest) -> SecretStr | None:
        reference = self._key_reference
        return self._secrets.resolve(reference, read_destination(request.url)) if reference else None

    def _log_failure(self, request: ProviderRequest, failure: Failure, started: float) -> None:
        structlog.get_logger().warning(
            "provider_call_failed",
            provider=self.name,
            model=request.model,
            status=failure.status,
            reason=failure.reason,
            took_ms=round((time.perf_counter() - started) * 1e3, 1),
        )
        if failure.complaint:
            structlog.get_logger().debug("provider_complained", provider=self.name, complaint=failure.complaint)


@dataclass(frozen=True, slots=True)
class _BegunStream(Generic[ReplyT]):
    stream: EventStream
    first: ReplyT
    started: float


class _AdmittedCall:
    """Call that the breaker admitted."""

    def __init__(self, provider: str, breaker: CircuitBreaker, admission: Admission) -> None:
        self._provider = provider
        self._breaker = breaker
        self._admission = admission
        self.verdict = CallVerdict.UNDECIDED

    def end_probe(self) -> None:
        """Admit other calls again when the stream of a probe has begun: its end can be minutes away."""
        if self._admission.probe:
            self._breaker.settle_call(self._admission, CallVerdict.ANSWERED)

    def settle(self, outcome: ReplyT | Failure) -> ReplyT:
        """Return an outcome that is no failure. Raises ProviderError."""
        self.verdict = CallVerdict.ANSWERED
        if not isinstance(outcome, Failure):
            return outcome
        if outcome.blame is Blame.INPUT:
            raise InputRefusedError(self._provider, outcome.reason, outcome.complaint)
        if outcome.blame is Blame.PROVIDER:
            self.verdict = CallVerdict.FAILED
        if outcome.status == HTTPStatus.TOO_MANY_REQUESTS:
            retry_after_s = parse_retry_after(outcome.retry_after, time.time())
            raise ProviderBusyError(self._provider, outcome.reason, retry_after_s)
        raise ProviderFailedError(self._provider, outcome.reason)


async def _read_piece(stream: EventStream, parse: ParseEvent[ReplyT], silence_s: float) -> ReplyT | Failure | None:
    """Return the next parsed event of a stream, or None at its end."""
    event = await stream.read_event(silence_s)
    if not isinstance(event, ServerEvent):
        return event
    try:
        piece = parse(event)
    except ReplyFormatError as error:
        return Failure(str(error))
    except ErrorEventError as error:
        return classify_failure(error.status, {}, error.body, stream.context)
    if piece is None:
        await stream.read_end()
    return piece


class ProviderClients:
    """Clients of all providers in use: one per version of a provider's record, closed when its last user releases it.

    Async context manager; leaving it closes all connections.
    """

    def __init__(self, secrets: Secrets, addresses: AddressRule, tuning: ClientTuning | None = None) -> None:
        self._secrets = secrets
        self._addresses = addresses
        self._tuning = tuning or ClientTuning()
        self._clients: dict[_ClientKey, ProviderClient] = {}
        self._users: dict[_ClientKey, int] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def acquire_client(self, provider: ProviderRecord) -> ProviderClient:
        """Return the client of this version of the record. Call `release_client` once for each call.

        Raises ProviderFailedError if all clients were closed.
        """
        key = (provider.name, provider.created_at, provider.version)
        if key not in self._clients:
            tls = await asyncio.to_thread(load_authorities)
            if key not in self._clients and not self._closed:
                http = open_http_client(provider, self._addresses, tls)
                self._clients[key] = ProviderClient(provider, http, self._secrets, self._tuning)
        if self._closed:
            raise ProviderFailedError(provider.name, "is closed: the service is shutting down")
        self._users[key] = self._users.get(key, 0) + 1
        return self._clients[key]

    async def release_client(self, provider: ProviderRecord) -> None:
        """Release a client. The last release closes its connections."""
        key = (provider.name, provider.created_at, provider.version)
        if key not in self._users:
            return
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            await self._clients.pop(key).close()

    async def close(self) -> None:
        """Close all clients. Further calls do nothing."""
        self._closed = True
        self._users.clear()
        while self._clients:
            await self._clients.popitem()[1].close()


def open_http_client(provider: ProviderRecord, addresses: AddressRule, tls: ssl.SSLContext) -> httpx.AsyncClient:
    """Open the connection pool of a provider, with as many connections as its `max_concurrency`."""
    limits = httpx.Limits(max_connections=provider.max_concurrency or CHATS_AT_ONCE, keepalive_expiry=_KEEP_ALIVE_S)
    return httpx.AsyncClient(
        transport=GuardedTransport(addresses, tls, limits),
        headers={"Accept": "application/json", "Accept-Encoding": ACCEPTED_ENCODING, "User-Agent": "skillbus"},
        timeout=None,  # noqa: S113 - httpx times each read alone, which a trickle outlasts: see ProviderClient
        follow_redirects=False,
        trust_env=False,
    )
