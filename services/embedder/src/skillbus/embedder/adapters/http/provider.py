"""A provider over HTTP: its connections, and how often, how many at once and for how long it is asked."""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

import httpx
import structlog

from skillbus.contracts.embedder.registry import ProviderRecord
from skillbus.embedder.adapters.http.exchange import ACCEPTED_ENCODING, Question, exchange
from skillbus.embedder.adapters.http.failure import Blame, Failure
from skillbus.embedder.adapters.http.replies import NotVectorsError
from skillbus.embedder.adapters.secrets import Secrets
from skillbus.embedder.domain.errors import ProviderFailedError, TextsRefusedError
from skillbus.embedder.domain.model import Rows
from skillbus.providers.breaker import CircuitBreaker, Clock, Verdict
from skillbus.providers.retry import RetrySchedule, parse_retry_after

REPLY_BYTES: Final = 64 * 1024 * 1024
_INLINE_BYTES: Final = 128 * 1024  # of a reply that is read in the loop, in less than a millisecond
_KEEP_ALIVE_S: Final = 30.0

Remaining = Callable[[], float | None]
"""Seconds until whoever asks stops waiting; None if it does not say."""
Read = Callable[[bytes], Rows]
"""Of a reply's body. Raises NotVectorsError."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is the same for all providers."""

    schedule: RetrySchedule = field(default_factory=RetrySchedule)
    breaker_failures: int = 5
    """Requests in a row, each after its tries."""
    breaker_cool_down_s: float = 30.0
    clock: Clock = time.monotonic
    """Of the breaker."""
    jitter: Callable[[], float] = random.random
    """Uniform in [0, 1)."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class HttpProvider:
    """One provider in one version of its registration, shared by its models. Closes the client that it is given."""

    def __init__(
        self,
        registered: ProviderRecord,
        client: httpx.AsyncClient,
        secrets: Secrets,
        remaining: Remaining,
        tuning: Tuning,
    ):
        self.name = registered.name
        self._reference = registered.api_key
        self._timeout_s = registered.timeout_s
        self._secrets = secrets
        self._remaining = remaining
        self._tuning = tuning
        self._places = asyncio.Semaphore(registered.max_concurrency)
        self._breaker = CircuitBreaker(
            tuning.clock, failures=tuning.breaker_failures, cool_down_s=tuning.breaker_cool_down_s
        )
        self._client = client

    async def ask(self, question: Question, read: Read) -> Rows:
        """The vectors, within the provider's `timeout_s` in all once one of its places is free.

        Raises:
            TextsRefusedError: some text of these is refused.
            ProviderFailedError: it does not answer in time, or not with vectors, or failed too often just now.
            SecretUnreadableError: there is no key to ask it with.
        """
        if not self._breaker.admits:  # also now, so as not to wait for a place in vain
            raise ProviderFailedError(self.name, self._left_alone())
        await self._take_place()
        try:
            outcome = await self._guarded(question, read)
        finally:
            self._places.release()
        if isinstance(outcome, Rows):
            return outcome
        if outcome.blame is Blame.TEXTS:
            raise TextsRefusedError(f"provider {self.name} {outcome.reason}")
        raise ProviderFailedError(self.name, outcome.reason)

    async def close(self) -> None:
        await self._client.aclose()

    async def _take_place(self) -> None:
        problem = None
        try:
            async with asyncio.timeout(self._left_s()):
                await self._places.acquire()
        except TimeoutError:
            problem = f"is busy: none of its places was free within {self._timeout_s:g} s; raise max_concurrency"
        if problem is not None:
            raise ProviderFailedError(self.name, problem)

    def _left_s(self) -> float:
        remaining = self._remaining()
        return self._timeout_s if remaining is None else min(self._timeout_s, remaining)

    async def _guarded(self, question: Question, read: Read) -> Rows | Failure:
        budget_s = self._left_s()
        if budget_s <= 0:
            return Failure("was not asked: the caller waits no longer", Blame.CALLER)
        admission = self._breaker.admit_call()
        if admission is None:
            return Failure(self._left_alone())
        verdict = Verdict.UNDECIDED
        try:
            outcome = await self._tries(question, read, budget_s)
            verdict = _verdict(outcome)
            return outcome
        finally:
            self._breaker.settle_call(admission, verdict)

    def _left_alone(self) -> str:
        return f"failed {self._breaker.failed_in_a_row} times in a row; next try in {self._breaker.wait_s:.0f} s"

    async def _tries(self, question: Question, read: Read, budget_s: float) -> Rows | Failure:
        until = asyncio.get_running_loop().time() + budget_s
        failed = 0
        while True:
            outcome = await self._try(question, read, until)
            if outcome is None:
                blame = Blame.PROVIDER if budget_s >= self._timeout_s else Blame.CALLER
                return Failure(f"did not answer in full within {budget_s:g} s", blame)
            if isinstance(outcome, Rows) or not outcome.again:
                return outcome
            failed += 1
            left_s = until - asyncio.get_running_loop().time()
            asked_s = parse_retry_after(outcome.retry_after, time.time())
            delay_s = self._tuning.schedule.compute_delay_s(failed, asked_s, left_s, self._tuning.jitter())
            if delay_s is None:
                return outcome
            await self._tuning.sleep(delay_s)

    async def _try(self, question: Question, read: Read, until: float) -> Rows | Failure | None:
        """None if it took until `until`, in the loop's time."""
        key = self._secrets.resolve(self._reference) if self._reference else None
        started = time.perf_counter()
        outcome: Rows | bytes | Failure | None
        try:
            async with asyncio.timeout_at(until):
                outcome = await exchange(self._client, question, self._reference, key)
        except TimeoutError:
            outcome = None
        if isinstance(outcome, bytes):
            outcome = await _rows_of(outcome, read)
        if not isinstance(outcome, Rows):
            structlog.get_logger().warning(
                "embedding_try_failed",
                provider=self.name,
                model=question.model,
                status=outcome.status if outcome else None,
                reason=outcome.reason if outcome else "timeout",
                took_ms=round((time.perf_counter() - started) * 1e3, 1),
            )
        return outcome


def _verdict(outcome: Rows | Failure) -> Verdict:
    if isinstance(outcome, Rows) or outcome.blame in {Blame.REQUEST, Blame.TEXTS}:
        return Verdict.ANSWERED
    return Verdict.FAILED if outcome.blame is Blame.PROVIDER else Verdict.UNDECIDED


async def _rows_of(body: bytes, read: Read) -> Rows | Failure:
    try:
        return read(body) if len(body) <= _INLINE_BYTES else await asyncio.to_thread(read, body)
    except NotVectorsError as error:
        return Failure(str(error))


def http_client(registered: ProviderRecord, base_url: str, tls: ssl.SSLContext) -> httpx.AsyncClient:
    """Connections of one provider, as many as it may be asked at the same time."""
    return httpx.AsyncClient(
        verify=tls,
        headers={"Accept": "application/json", "Accept-Encoding": ACCEPTED_ENCODING, "User-Agent": "skillbus"},
        timeout=None,  # noqa: S113 - httpx counts each read alone, which a trickle outlasts: see HttpProvider._try
        follow_redirects=False,
        trust_env=not _is_loopback(base_url),
        limits=httpx.Limits(max_connections=registered.max_concurrency, keepalive_expiry=_KEEP_ALIVE_S),
    )


def _is_loopback(base_url: str) -> bool:
    """An environment's proxy is not asked for what is on this machine."""
    host = httpx.URL(base_url).host
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
