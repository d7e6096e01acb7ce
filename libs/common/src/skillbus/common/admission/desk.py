"""Decisions about requests, without an event loop: which start, which wait, which are refused, and for how long."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from skillbus.common.admission.fair_queue import FairQueue, WorkKind
from skillbus.common.admission.limit import AdaptiveLimit

WaiterT = TypeVar("WaiterT")

WAIT_S: Final = 0.5
"""Longest expected wait. A request that would wait longer is refused at once."""
HOLD_S: Final = 1.0
"""Longest time for which a request counts as in flight. What takes longer waits for something else, such as the body
of an upload or a model of a provider, and would keep others from a place that it does not use."""
_LATE_S: Final = 4 * WAIT_S
"""Longest wait, if the service became slower than expected."""
_RATE_EVERY_S: Final = 0.25
_FIRST_PLACES: Final = 64
_LEAST_PLACES: Final = 32
_MOST_PLACES: Final = 2048
_RETRY_MOST_S: Final = 30


@dataclass(slots=True, eq=False)
class Permit:
    """A request in flight."""

    kind: WorkKind
    is_sample: bool
    began_at: float


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[WaiterT]):
    waiter: WaiterT
    is_sample: bool
    since: float


class RefusedError(Exception):
    """A request is refused: too many wait."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many requests wait: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class AdmissionDesk(Generic[WaiterT]):
    """Requests in flight, requests that wait, and what became of the last ones.

    In one process of asyncio the queue before the service is the event loop itself: sockets are read and tasks
    continued in turn, so hundreds of started requests delay each other, and the refusal of the next one too. Here only
    as many are started as the limit says. A few more wait, in a fair order and for a bounded time.
    """

    def __init__(self, limit: AdaptiveLimit, clock: Callable[[], float]) -> None:
        """Make a desk. `clock` returns seconds that only increase."""
        self.limit = limit
        self.refused: Counter[WorkKind] = Counter()
        """Refused requests by kind, since the start."""
        self._clock = clock
        self._queue = FairQueue[_Waiting[WaiterT]]()
        self._flying: dict[Permit, None] = {}
        self._imports = 0
        self._lag_s = 0.0
        self._rate = self._refusals_s = 0.0
        self._counted_at, self._done, self._new_refusals = clock(), 0, 0
        self._was_busy = False

    @property
    def in_flight(self) -> int:
        """Number of requests that have started, have not ended, and are younger than `HOLD_S`."""
        return len(self._flying)

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    @property
    def lag_s(self) -> float:
        """Last measured lag of the event loop."""
        return self._lag_s

    def enter(self, key: str, kind: WorkKind, *, is_sample: bool) -> Permit | None:
        """Start a request of a key and return its permit; None if it has to wait: then call `wait`.

        Raises:
            RefusedError: Too many requests wait, or too many of the key.
        """
        if not len(self._queue) and self._may_start(kind):
            self._queue.count_turn(key, kind)
            return self._start(kind, is_sample=is_sample)
        keys = self._queue.keys + (self._queue.count_waiting(key) == 0)
        if self._queue.count_waiting(key) >= max(1, self._count_places() // keys >> kind):
            self.refused[kind] += 1
            self._new_refusals += 1
            raise RefusedError(self.estimate_retry_s())
        return None

    def wait(self, key: str, kind: WorkKind, waiter: WaiterT, *, is_sample: bool) -> None:
        """Let a request wait that `enter` did not start."""
        self._queue.push(key, kind, _Waiting(waiter, is_sample, self._clock()))

    def leave(self, permit: Permit) -> None:
        """End a request."""
        if permit not in self._flying:
            return  # it was in flight for long, and no longer counted
        self._land(permit)
        self._done += 1
        if not self._flying and not len(self._queue):
            self._queue.forget_turns()

    def start_next(self) -> tuple[WaiterT, Permit] | None:
        """Start the next of those that wait; None if nothing may start."""
        if not len(self._queue) or (found := self._queue.pop(self._may_start)) is None:
            return None
        kind, waiting = found
        return waiting.waiter, self._start(kind, is_sample=waiting.is_sample)

    def remove_late(self) -> list[WaiterT]:
        """Remove and return those that have waited for too long."""
        before = self._clock() - _LATE_S
        return [it.waiter for it in self._queue.remove(lambda waiting: waiting.since < before)]

    def note_tick(self, lag_s: float) -> None:
        """Note the lag of the event loop, and what has changed since the last call. Called every some milliseconds."""
        now = self._clock()
        self._lag_s = lag_s
        for permit in [it for it in self._flying if now - it.began_at > HOLD_S]:
            self._land(permit)
        passed_s = now - self._counted_at
        if passed_s < _RATE_EVERY_S:
            return
        if self._was_busy and len(self._queue):
            rate = self._done / passed_s
            self._rate = self._rate + 0.3 * (rate - self._rate) if self._rate else rate
        self._refusals_s = self._new_refusals / passed_s
        self._counted_at, self._done, self._new_refusals = now, 0, 0
        self._was_busy = len(self._queue) > 0

    def estimate_retry_s(self) -> int:
        """Return the seconds after which those that wait, and those that were refused in a second, could be served."""
        if not self._rate:
            return 1
        refusals = max(self._refusals_s, float(self._new_refusals))
        return max(1, min(_RETRY_MOST_S, math.ceil((len(self._queue) + refusals) / self._rate)))

    def _start(self, kind: WorkKind, *, is_sample: bool) -> Permit:
        permit = Permit(kind, is_sample, self._clock())
        if kind is not WorkKind.RUN:  # a run is bounded where it runs, and mostly waits for its program
            self._flying[permit] = None
            self._imports += kind is WorkKind.IMPORT
        return permit

    def _land(self, permit: Permit) -> None:
        if permit.is_sample:
            self.limit.note_end(permit.began_at, len(self._flying))
        del self._flying[permit]
        self._imports -= permit.kind is WorkKind.IMPORT

    def _may_start(self, kind: WorkKind) -> bool:
        """Return True if a place is free. Half of them are never given to imports."""
        limit = self.limit.current
        is_share_free = kind is not WorkKind.IMPORT or self._imports < max(1, limit // 2)
        return len(self._flying) < limit and is_share_free

    def _count_places(self) -> int:
        """Return how many may wait: as many as are served in `WAIT_S`, of which requests wait unread for the lag."""
        if not self._rate:
            return _FIRST_PLACES
        return max(_LEAST_PLACES, min(_MOST_PLACES, int(self._rate * max(0.0, WAIT_S - self._lag_s))))
