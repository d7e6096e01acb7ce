"""Limits of each API key: requests a minute, and runs at once. They hold for each replica of the gateway."""

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
    tokens: float
    filled_at: float


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Token bucket and run counter of each key. It holds as many entries as there are keys."""

    requests_per_minute: int
    runs_at_once: int
    clock: Callable[[], float] = time.monotonic
    """Seconds that only increase."""
    _buckets: dict[str, _TokenBucket] = field(default_factory=dict, init=False)
    _runs: Counter[str] = field(default_factory=Counter, init=False)

    def admit_request(self, caller: Principal) -> None:
        """Count a request.

        Raises:
            RequestError: `overloaded` with `retry_after_s` in its details: the key made too many in the last minute.
        """
        if not caller.has_limits:
            return
        now, per_s = self.clock(), self.requests_per_minute / 60
        bucket = self._buckets.setdefault(caller.name, _TokenBucket(self.requests_per_minute, now))
        bucket.tokens = min(self.requests_per_minute, bucket.tokens + (now - bucket.filled_at) * per_s)
        bucket.filled_at = now
        if bucket.tokens < 1:
            wait_s = math.ceil((1 - bucket.tokens) / per_s)
            raise _refuse(f"The key may send {self.requests_per_minute} requests a minute", wait_s)
        bucket.tokens -= 1

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
