"""The circuit breaker, with a clock that a test turns."""

import pytest

from skillbus.providers.breaker import CallVerdict, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock, failures=3, cool_down_s=30.0)


def ask(breaker: CircuitBreaker, verdict: CallVerdict) -> bool:
    admission = breaker.admit_call()
    if admission is not None:
        breaker.settle_call(admission, verdict)
    return admission is not None


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        assert ask(breaker, CallVerdict.FAILED)


def test_failures_in_a_row_open_it(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    assert breaker.wait_s == 0
    fail(breaker, 1)
    assert breaker.admit_call() is None
    assert breaker.wait_s == 30.0
    assert breaker.failed_in_a_row == 3


def test_an_answer_between_failures_keeps_it_closed(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    assert ask(breaker, CallVerdict.ANSWERED)
    fail(breaker, 2)
    assert breaker.admit_call() is not None


def test_what_is_not_known_counts_as_nothing(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    assert ask(breaker, CallVerdict.UNDECIDED)
    fail(breaker, 1)
    assert breaker.admit_call() is None


def test_after_the_cool_down_one_probe_is_let_through(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 29.9
    assert breaker.admit_call() is None
    clock.now += 0.2
    probe = breaker.admit_call()
    assert probe is not None
    assert probe.probe
    assert breaker.admit_call() is None


def test_a_probe_that_is_answered_closes_it(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 30
    assert ask(breaker, CallVerdict.ANSWERED)
    fail(breaker, 2)
    assert breaker.admit_call() is not None


def test_a_probe_that_fails_opens_it_for_another_cool_down(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 30
    assert ask(breaker, CallVerdict.FAILED)
    assert breaker.wait_s == 30.0
    clock.now += 30
    assert breaker.admit_call() is not None


def test_a_probe_whose_caller_left_makes_room_for_another(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 30
    assert ask(breaker, CallVerdict.UNDECIDED)
    assert breaker.admit_call() is not None


def test_a_late_failure_keeps_it_open_no_longer(breaker: CircuitBreaker, clock: Clock) -> None:
    late = breaker.admit_call()
    assert late is not None
    fail(breaker, 3)
    clock.now += 20
    breaker.settle_call(late, CallVerdict.FAILED)
    assert breaker.wait_s == pytest.approx(10.0)


def test_a_late_verdict_does_not_stand_for_the_probe(breaker: CircuitBreaker, clock: Clock) -> None:
    late = breaker.admit_call()
    assert late is not None
    fail(breaker, 3)
    clock.now += 30
    assert breaker.admit_call() is not None
    breaker.settle_call(late, CallVerdict.UNDECIDED)
    assert breaker.admit_call() is None
