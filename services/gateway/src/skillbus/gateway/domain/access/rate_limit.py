"""Limits of each API key: requests a minute, suggestions an hour, runs and streams at once, for each replica."""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.access.principal import Principal

STREAMS_AT_ONCE: Final = 64
"""Streams of one key that follow jobs, runs and turns. Each holds a connection, and most a subscription."""


@dataclass(slots=True)
class _TokenBucket:
    """Tokens of one kind of one key."""

    tokens: float
    filled_at: float

    def take_token(self, size: int, per_s: float, now: float) -> int:
        """Take a token. Return 0, or the seconds until there is one."""
        self.tokens = min(size, self.tokens + (now - self.filled_at) * per_s)
        self.filled_at = now
        if self.tokens < 1:
            return math.ceil((1 - self.tokens) / per_s)
        self.tokens -= 1
        return 0


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Token buckets and counters of each key. It holds as many entries as there are keys."""

    requests_per_minute: int
    runs_at_once: int
    suggestions_per_hour: int
    clock: Callable[[], float] = time.monotonic
    """Seconds that only increase."""
    _requests: dict[str, _TokenBucket] = field(default_factory=dict, init=False)
    _suggestions: dict[str, _TokenBucket] = field(default_factory=dict, init=False)
    _runs: Counter[str] = field(default_factory=Counter, init=False)
    _streams: Counter[str] = field(default_factory=Counter, init=False)

    def admit_request(self, caller: Principal) -> None:
        """Count a request.

        Raises:
            RequestError: `overloaded` with `retry_after_s` in its details: the key made too many in the last minute.
        """
        most = self.requests_per_minute
        if wait_s := self._take_token(self._requests, caller, most, most / 60):
            raise _refuse(f"The key may send {most} requests a minute", wait_s)

    def admit_suggestion(self, caller: Principal) -> None:
        """Count a suggestion, which somebody has to review. Raises RequestError as `admit_request`, for an hour."""
        most = self.suggestions_per_hour
        if wait_s := self._take_token(self._suggestions, caller, most, most / 3600):
            raise _refuse(f"The key may suggest {most} items an hour", wait_s)

    def _take_token(self, buckets: dict[str, _TokenBucket], caller: Principal, size: int, per_s: float) -> int:
        """Return 0, or the seconds until the caller may come again."""
        if not caller.has_limits:
            return 0
        now = self.clock()
        return buckets.setdefault(caller.name, _TokenBucket(size, now)).take_token(size, per_s, now)

    def hold_run(self, caller: Principal) -> AbstractContextManager[None]:
        """Count a run while the context is open.

        Entering it raises RequestError with `overloaded`: as many runs of the key as it may have are under way.
        """
        return _hold(self._runs, caller, self.runs_at_once, "runs")

    def hold_stream(self, caller: Principal) -> AbstractContextManager[None]:
        """Count a stream that follows work while the context is open. Entering it raises as `hold_run` says."""
        return _hold(self._streams, caller, STREAMS_AT_ONCE, "streams")


@contextmanager
def _hold(held: Counter[str], caller: Principal, most: int, noun: str) -> Generator[None]:
    if caller.has_limits and held[caller.name] >= most:
        raise _refuse(f"The key may have {most} {noun} at once", 1)
    held[caller.name] += 1
    try:
        yield
    finally:
        held[caller.name] -= 1


def _refuse(rule: str, wait_s: int) -> RequestError:
    return RequestError(
        ErrorCode.OVERLOADED, f"{rule}: try again in {wait_s} s.", details={"retry_after_s": wait_s, "limit_of": "key"}
    )
