"""Decisions about requests that come at a multiple of what a simulated service can answer."""

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass

import pytest

from skillbus.common.admission.desk import AdmissionDesk, Permit, RefusedError
from skillbus.common.admission.fair_queue import WorkKind
from skillbus.common.admission.limit import AdaptiveLimit

_WORK_S = 0.008
_PEAK = 1 / _WORK_S
_TICK_S = 0.02


@dataclass(slots=True)
class _Flow:
    """Requests of one key that come evenly."""

    key: str
    per_s: float
    kind: WorkKind = WorkKind.READ


class _Simulation:
    """One processor that all requests in flight share equally, behind a desk."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done, self.refused = Counter[str](), Counter[str]()
        self.waits_s: dict[str, list[float]] = {}
        self.retry_after_s = 0
        self.lag_s = 0.0
        limit = AdaptiveLimit(2, 256, lambda: self.now)
        self.desk: AdmissionDesk[tuple[str, float]] = AdmissionDesk(limit, lambda: self.now)
        self._numbers = itertools.count()
        self._worked = 0.0
        self._flying: list[tuple[float, int, Permit, str]] = []

    def run(self, seconds: float, *flows: _Flow) -> None:
        """Let requests come for some seconds, and the requests in flight end."""
        events = [(self.now + 1 / flow.per_s, next(self._numbers), flow) for flow in flows]
        heapq.heapify(events)
        until, tick = self.now + seconds, self.now
        while self.now < until:
            ends = self.now + (self._flying[0][0] - self._worked) * len(self._flying) if self._flying else until
            arrives = events[0][0] if events else until
            at = min(ends, arrives, tick, until)
            self._worked += (at - self.now) / len(self._flying) if self._flying else 0.0
            self.now = at
            if at == tick:
                self.desk.note_tick(self.lag_s)
                tick += _TICK_S
            elif self._flying and at == ends:
                _, _, permit, key = heapq.heappop(self._flying)
                self.desk.leave(permit)
                self.done[key] += 1
            elif events and at == arrives:
                _, _, flow = heapq.heappop(events)
                heapq.heappush(events, (at + 1 / flow.per_s, next(self._numbers), flow))
                self._arrive(flow)
            while (started := self.desk.start_next()) is not None:
                (key, came_at), permit = started
                self._fly(key, permit, self.now - came_at)

    def _arrive(self, flow: _Flow) -> None:
        try:
            permit = self.desk.enter(flow.key, flow.kind, is_sample=True)
        except RefusedError as refused:
            self.refused[flow.key] += 1
            self.retry_after_s = refused.retry_after_s
            return
        if permit is None:
            self.desk.wait(flow.key, flow.kind, (flow.key, self.now), is_sample=True)
        else:
            self._fly(flow.key, permit, 0.0)

    def _fly(self, key: str, permit: Permit, waited_s: float) -> None:
        self.waits_s.setdefault(key, []).append(waited_s)
        heapq.heappush(self._flying, (self._worked + _WORK_S, next(self._numbers), permit, key))


def test_load_below_saturation_is_never_refused() -> None:
    simulation = _Simulation()
    simulation.run(30, _Flow("a", 0.8 * _PEAK))
    assert not simulation.refused


def test_five_times_saturation_keeps_the_throughput_and_refuses_the_rest() -> None:
    simulation = _Simulation()
    simulation.run(5, _Flow("a", 5 * _PEAK))
    before = simulation.done["a"]
    simulation.run(20, _Flow("a", 5 * _PEAK))
    assert simulation.done["a"] - before > 0.98 * 20 * _PEAK
    assert max(simulation.waits_s["a"]) < 1.5
    assert simulation.retry_after_s in {4, 5, 6}, "four of five are refused: in a second as many as in four are served"


def test_after_overload_requests_are_answered_without_waiting_within_two_seconds() -> None:
    simulation = _Simulation()
    simulation.run(10, _Flow("a", 5 * _PEAK))
    simulation.run(2)
    simulation.refused.clear()
    simulation.waits_s.clear()
    simulation.run(5, _Flow("a", 0.3 * _PEAK))
    assert not simulation.refused
    assert max(simulation.waits_s["a"]) == 0


def test_a_key_that_sends_little_is_served_while_another_floods() -> None:
    simulation = _Simulation()
    simulation.run(20, _Flow("flood", 5 * _PEAK), _Flow("calm", 0.2 * _PEAK))
    assert not simulation.refused["calm"]
    assert max(simulation.waits_s["calm"]) < 0.1


def test_keys_that_flood_alike_get_equal_shares() -> None:
    simulation = _Simulation()
    simulation.run(20, *(_Flow(key, per_s * _PEAK) for key, per_s in (("a", 1), ("b", 2), ("c", 4))))
    shares = [simulation.done[key] / simulation.done.total() for key in "abc"]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.04)


def test_imports_stand_back_behind_searches_but_come_to_their_turn() -> None:
    simulation = _Simulation()
    simulation.run(20, _Flow("a", 2 * _PEAK, WorkKind.IMPORT), _Flow("b", 0.7 * _PEAK))
    assert not simulation.refused["b"]
    assert max(simulation.waits_s["b"]) < 0.1
    assert simulation.done["a"] > 0.2 * 20 * _PEAK


def test_searches_of_a_key_come_before_its_imports() -> None:
    simulation = _Simulation()
    simulation.run(20, _Flow("a", 2 * _PEAK), _Flow("a", 2 * _PEAK, WorkKind.IMPORT))
    reads, imports = simulation.desk.refused[WorkKind.READ], simulation.desk.refused[WorkKind.IMPORT]
    assert reads < 0.7 * imports


def test_a_run_starts_while_searches_of_another_key_flood() -> None:
    simulation = _Simulation()
    simulation.run(10, _Flow("flood", 5 * _PEAK), _Flow("runs", 2, WorkKind.RUN))
    assert not simulation.refused["runs"]
    assert max(simulation.waits_s["runs"]) < 0.5


def test_requests_that_hang_give_their_places_back() -> None:
    now = 0.0
    desk: AdmissionDesk[str] = AdmissionDesk(AdaptiveLimit(2, 2, lambda: now), lambda: now)
    hung = [desk.enter("a", WorkKind.READ, is_sample=True) for _ in range(2)]
    assert desk.enter("b", WorkKind.READ, is_sample=True) is None
    desk.wait("b", WorkKind.READ, "b waits", is_sample=True)
    assert desk.start_next() is None
    now = 1.1
    desk.note_tick(0.0)
    started = desk.start_next()
    assert started is not None
    assert started[0] == "b waits"
    for permit in hung:
        assert permit is not None
        desk.leave(permit)
    assert desk.in_flight == 1


def test_nobody_waits_longer_than_two_seconds_behind_a_service_that_stopped() -> None:
    now = 0.0
    desk: AdmissionDesk[str] = AdmissionDesk(AdaptiveLimit(1, 1, lambda: now), lambda: now)
    desk.enter("a", WorkKind.READ, is_sample=True)
    for name in ("first", "second"):
        desk.wait("a", WorkKind.READ, name, is_sample=True)
    now = 1.9
    assert not desk.remove_late()
    now = 2.1
    assert desk.remove_late() == ["first", "second"]
    assert desk.waiting == 0


def test_fewer_wait_when_the_event_loop_lags() -> None:
    simulation = _Simulation()
    simulation.run(10, _Flow("a", 2 * _PEAK))
    waiting = simulation.desk.waiting
    assert waiting > 40
    simulation.lag_s = 0.4
    simulation.run(2, _Flow("a", 2 * _PEAK))
    assert simulation.desk.waiting < waiting / 2
