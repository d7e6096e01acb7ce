"""Limits of each API key: requests a minute, suggestions an hour, runs at once. They hold for each replica."""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.access.principal import Principal


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
    """Token bucket and run counter of each key. It holds as many entries as there are keys."""

    requests_per_minute: int
    runs_at_once: int
    suggestions_per_hour: int
    clock: Callable[[], float] = time.monotonic
    """Seconds that only increase."""
    _requests: dict[str, _TokenBucket] = field(default_factory=dict, init=False)
    _suggestions: dict[str, _TokenBucket] = field(default_factory=dict, init=False)
    _runs: Counter[str] = field(default_factory=Counter, init=False)

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

    @contextmanager
    def hold_run(self, caller: Principal) -> Generator[None]:
        """Count a run while the context is open.

        Raises:
            RequestError: `overloaded`: as many runs of the key as it may have are under way.
        """
        if caller.has_limits and self._runs[caller.name] >= self.runs_at_once:
            raise _refuse(f"The key may have {self.runs_at_once} runs at once", 1)
        self._runs[caller.name] += 1
        try:
            yield
        finally:
            self._runs[caller.name] -= 1


def _refuse(rule: str, wait_s: int) -> RequestError:
    return RequestError(
        ErrorCode.OVERLOADED, f"{rule}: try again in {wait_s} s.", details={"retry_after_s": wait_s, "limit_of": "key"}
    )
