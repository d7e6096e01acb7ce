"""Limit of concurrent requests that adapts to their latency.

Little's law says what a service needs in flight: its throughput times its latency without a queue. More only waits
inside the service, and shows as latency. So the limit is cut in proportion when the latency rises above the one
without a queue, and otherwise grows by the square root of itself, as in the gradient limiter of Netflix's
concurrency-limits (Gradient2, 2018), after TCP Vegas (Brakmo and Peterson, 1995):

    limit = limit * clamp(1.5 * unloaded / latency, 0.5, 1) + sqrt(limit)

A service that is saturated from its start never shows its latency without a queue. So it is measured: the first
window, if it ends within a second, and one after every ten seconds run with the lowest limit, as BBR does (Cardwell et
al. 2016, ProbeRTT). A window takes the requests that began in it, as a round of Vegas does. Latencies are smoothed
means, not minima: the fastest of requests of two sorts would make all others look like a queue.
"""

import math
from collections.abc import Callable
from typing import Final

_WINDOW_SAMPLES: Final = 32
_WINDOW_LEAST: Final = 8
_WINDOW_S: Final = 0.5
"""A window ends with 32 requests, or after half a second with at least 8."""
_PROBE_EVERY_S: Final = 10.0
_PROBE_MOST_S: Final = 1.0
"""Longest time with the lowest limit, if too few requests end to measure anything."""
_TOLERANCE: Final = 1.5
_SMOOTHING: Final = 0.3
_START: Final = 8


class AdaptiveLimit:
    """Number of requests that may be in flight. Whoever holds it counts them."""

    def __init__(self, lowest: int, highest: int, clock: Callable[[], float]) -> None:
        """Make a limit. `clock` returns seconds that only increase."""
        self._lowest, self._highest, self._clock = lowest, max(lowest, highest), clock
        self._limit = float(min(max(lowest, _START), self._highest))
        self._unloaded_s = self._latency_s = 0.0
        """Smoothed means: of the windows with the lowest limit, and of the others."""
        self._is_probing = True
        self._probe_at = self._begin = clock()
        self._count = self._most = 0
        self._sum_s = 0.0

    @property
    def current(self) -> int:
        """The limit now."""
        if self._is_probing and self._clock() - self._begin > _PROBE_MOST_S:
            self._end_probe(self._clock())
        return self._lowest if self._is_probing else int(self._limit)

    def note_end(self, began_at: float, in_flight: int) -> None:
        """Note that a request ended which began at a time of the clock; `in_flight` counts it too."""
        if began_at < self._begin:
            return
        now = self._clock()
        self._count += 1
        self._sum_s += now - began_at
        self._most = max(self._most, in_flight)
        if self._count >= _WINDOW_SAMPLES or (self._count >= _WINDOW_LEAST and now - self._begin >= _WINDOW_S):
            self._end_window(now, self._sum_s / self._count)

    def _end_window(self, now: float, mean_s: float) -> None:
        if self._is_probing:
            self._unloaded_s = _smooth(self._unloaded_s, mean_s, 0.5)
            self._end_probe(now)
            return
        self._latency_s = _smooth(self._latency_s, mean_s, _SMOOTHING)
        self._unloaded_s = min(self._unloaded_s or self._latency_s, self._latency_s)
        self._adapt()
        self._is_probing = now >= self._probe_at
        self._begin_window(now)

    def _end_probe(self, now: float) -> None:
        self._is_probing, self._probe_at = False, now + _PROBE_EVERY_S
        self._begin_window(now)

    def _begin_window(self, now: float) -> None:
        self._begin, self._count, self._most, self._sum_s = now, 0, 0, 0.0

    def _adapt(self) -> None:
        gradient = max(0.5, min(1.0, _TOLERANCE * self._unloaded_s / max(self._latency_s, 1e-9)))
        if gradient == 1.0 and self._most < self._limit / 2:
            return  # a limit that nobody reaches says nothing
        limit = self._limit * gradient + math.sqrt(self._limit)
        self._limit = max(float(self._lowest), min(float(self._highest), limit))


def _smooth(before: float, new: float, weight: float) -> float:
    return before + weight * (new - before) if before else new
