"""The limit of concurrent requests, on a simulated service."""

import heapq
import random
from collections.abc import Callable

import pytest

from skillbus.common.admission.limit import AdaptiveLimit


class _Service:
    """Simulated service with some servers that share their work equally, and requests that always wait before it."""

    def __init__(self, servers: int, draw_s: Callable[[], float], lowest: int = 2, highest: int = 256) -> None:
        self.now, self.servers, self.draw_s, self.done = 0.0, servers, draw_s, 0
        self.limit = AdaptiveLimit(lowest, highest, lambda: self.now)
        self._flying: list[tuple[float, int, float]] = []
        self._worked = 0.0
        self._number = 0

    def run(self, seconds: float, offered: int = 1_000) -> None:
        """Keep as many requests in flight as the limit allows, but at most `offered`."""
        until = self.now + seconds
        while self.now < until:
            while len(self._flying) < min(offered, self.limit.current):
                self._number += 1
                heapq.heappush(self._flying, (self._worked + self.draw_s(), self._number, self.now))
            # Each request gets the same share of the servers, at most one (processor sharing).
            share = min(1.0, self.servers / len(self._flying))
            ends_at, _, began_at = heapq.heappop(self._flying)
            self.now += (ends_at - self._worked) / share
            self._worked = ends_at
            self.limit.note_end(began_at, len(self._flying) + 1)
            self.done += 1


def _draw_constant() -> float:
    return 0.01


def test_one_processor_gets_a_few_requests_at_once() -> None:
    service = _Service(1, _draw_constant)
    service.run(60)
    assert 2 <= service.limit.current <= 10


def test_a_service_with_many_processors_gets_at_least_as_many_requests_and_no_long_queue() -> None:
    service = _Service(40, _draw_constant)
    service.run(60)
    seen = set()
    for _ in range(100):
        service.run(0.05)
        seen.add(service.limit.current)
    assert 40 <= max(seen) <= 100


def test_a_slow_model_far_away_is_asked_up_to_the_maximum() -> None:
    service = _Service(1_000, lambda: 0.3, highest=128)
    service.run(30)
    assert service.limit.current == 128


def test_latency_with_two_modes_leaves_the_throughput() -> None:
    rng = random.Random(1)  # noqa: S311 (no secret)

    def draw_s() -> float:
        return 0.1 if rng.random() < 0.1 else 0.003

    service = _Service(16, draw_s)
    service.run(30)
    before = service.done
    service.run(60)
    most = 60 * 16 / (0.1 * 0.1 + 0.9 * 0.003)
    assert service.done - before > 0.85 * most


def test_a_service_that_becomes_slower_is_sent_less_and_one_that_recovers_gets_more_again() -> None:
    service = _Service(40, _draw_constant)
    service.run(40)
    service.servers = 4
    service.run(20)
    slow = service.limit.current
    assert slow < 30
    service.servers = 40
    service.run(40)
    assert service.limit.current > slow


def test_a_limit_that_nobody_reaches_does_not_grow() -> None:
    service = _Service(40, _draw_constant)
    service.run(60, offered=2)
    assert service.limit.current <= 8


@pytest.mark.parametrize(("lowest", "highest"), [(1, 1), (3, 5)])
def test_the_limit_stays_between_its_bounds(lowest: int, highest: int) -> None:
    service = _Service(2, _draw_constant, lowest, highest)
    for _ in range(200):
        service.run(0.1)
        assert lowest <= service.limit.current <= highest


def test_a_service_of_which_nothing_ends_is_not_kept_at_the_minimum() -> None:
    now = 0.0
    limit = AdaptiveLimit(2, 256, lambda: now)
    assert limit.current == 2
    now = 1.1
    assert limit.current == 8
