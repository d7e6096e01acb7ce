"""Clients of providers: connections, concurrency limit, timeout, retries and circuit breaker."""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

import httpx
import structlog

from skillbus.common.outbound.addresses import AddressRule
from skillbus.common.outbound.transport import GuardedTransport, read_destination
from skillbus.common.secrets import Secrets
from skillbus.contracts.embedder.registry import ProviderRecord
from skillbus.providers.breaker import CallVerdict, CircuitBreaker, Clock
from skillbus.providers.errors import InputRefusedError, ProviderFailedError, ReplyFormatError
from skillbus.providers.exchange import ACCEPTED_ENCODING, ProviderRequest, exchange_once
from skillbus.providers.failure import Blame, Failure
from skillbus.providers.retry import RetrySchedule, parse_retry_after

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""Largest `ProviderRequest.reply_bytes` that callers should choose."""
_INLINE_BYTES: Final = 128 * 1024
"""Largest reply that is parsed in the event loop, in less than a millisecond. Larger ones are parsed in a thread."""
_KEEP_ALIVE_S: Final = 30.0

ReplyT = TypeVar("ReplyT")


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
        self._permits = asyncio.Semaphore(provider.max_concurrency)
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
        if not self._breaker.admits:  # also checked here, to avoid a pointless wait for a permit
            raise ProviderFailedError(self.name, self._describe_open_breaker())
        await self._acquire_permit()
        try:
            outcome = await self._call_guarded(request, parse)
        finally:
            self._permits.release()
        if not isinstance(outcome, Failure):
            return outcome
        if outcome.blame is Blame.INPUT:
            raise InputRefusedError(self.name, outcome.reason)
        raise ProviderFailedError(self.name, outcome.reason)

    async def close(self) -> None:
        await self._http.aclose()

    async def _acquire_permit(self) -> None:
        problem = None
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._permits.acquire()
        except TimeoutError:
            problem = f"is busy: no permit was free within {self._timeout_s:g} s; raise max_concurrency"
        if problem is not None:
            raise ProviderFailedError(self.name, problem)

    async def _call_guarded(self, request: ProviderRequest, parse: Callable[[bytes], ReplyT]) -> ReplyT | Failure:
        admission = self._breaker.admit_call()
        if admission is None:
            return Failure(self._describe_open_breaker())
        verdict = CallVerdict.UNDECIDED
        try:
            outcome = await self._call_with_retries(request, parse)
            failed = isinstance(outcome, Failure) and outcome.blame is Blame.PROVIDER
            verdict = CallVerdict.FAILED if failed else CallVerdict.ANSWERED
            return outcome
        finally:
            self._breaker.settle_call(admission, verdict)

    def _describe_open_breaker(self) -> str:
        return f"failed {self._breaker.failed_in_a_row} times in a row; next try in {self._breaker.wait_s:.0f} s"

    async def _call_with_retries(self, request: ProviderRequest, parse: Callable[[bytes], ReplyT]) -> ReplyT | Failure:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        failed = 0
        while True:
            outcome = await self._call_once(request, parse, deadline)
            if not isinstance(outcome, Failure) or not outcome.retryable:
                return outcome
            failed += 1
            left_s = deadline - asyncio.get_running_loop().time()
            requested_s = parse_retry_after(outcome.retry_after, time.time())
            delay_s = self._tuning.schedule.compute_delay_s(failed, requested_s, left_s, self._tuning.jitter())
            if delay_s is None:
                return outcome
            await self._tuning.sleep(delay_s)

    async def _call_once(
        self, request: ProviderRequest, parse: Callable[[bytes], ReplyT], deadline: float
    ) -> ReplyT | Failure:
        """Make one attempt, until `deadline` in the loop's time, and log a failure."""
        reference = self._key_reference
        key = self._secrets.resolve(reference, read_destination(request.url)) if reference else None
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
        return failure


class ProviderClients:
    """Clients of all providers in use: one per version of a provider's record, closed when its last user releases it.

    Async context manager; leaving it closes all connections.
    """

    def __init__(self, secrets: Secrets, addresses: AddressRule, tuning: ClientTuning | None = None) -> None:
        self._secrets = secrets
        self._addresses = addresses
        self._tuning = tuning or ClientTuning()
        self._clients: dict[tuple[str, int], ProviderClient] = {}
        self._users: dict[tuple[str, int], int] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def acquire_client(self, provider: ProviderRecord) -> ProviderClient:
        """Return the client of this version of the record. Call `release_client` once for each call.

        Raises ProviderFailedError if all clients were closed.
        """
        if self._tls is None:  # loading the certificates takes about 30 ms
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)
        if self._closed:
            raise ProviderFailedError(provider.name, "is closed: the service is shutting down")
        key = (provider.name, provider.version)
        if key not in self._clients:
            http = open_http_client(provider, self._addresses, self._tls)
            self._clients[key] = ProviderClient(provider, http, self._secrets, self._tuning)
        self._users[key] = self._users.get(key, 0) + 1
        return self._clients[key]

    async def release_client(self, provider: ProviderRecord) -> None:
        """Release a client. The last release closes its connections."""
        key = (provider.name, provider.version)
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
    limits = httpx.Limits(max_connections=provider.max_concurrency, keepalive_expiry=_KEEP_ALIVE_S)
    return httpx.AsyncClient(
        transport=GuardedTransport(addresses, tls, limits),
        headers={"Accept": "application/json", "Accept-Encoding": ACCEPTED_ENCODING, "User-Agent": "skillbus"},
        timeout=None,  # noqa: S113 - httpx times each read alone, which a trickle outlasts: see ProviderClient
        follow_redirects=False,
        trust_env=False,
    )
