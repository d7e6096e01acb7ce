"""When a request is sent once more, and how often."""

from skillbus.common.hedging import AnswerTimes


def take_all(times: AnswerTimes, now: float = 0.0) -> int:
    """Copies that the budget has for requests that spent none."""
    taken = 0
    while times.take_copy(now, 0):
        taken += 1
    return taken


def know(times: AnswerTimes, took_s: float = 0.01, answers: int = 100) -> None:
    for _ in range(answers):
        times.note_answer(took_s)


def test_an_unknown_or_quick_endpoint_is_given_a_fifth_of_a_second() -> None:
    times = AnswerTimes()
    assert times.begin_request(0) == 0.2
    know(times)
    assert times.begin_request(0) == 0.2


def test_a_slow_endpoint_is_given_as_long_as_nearly_all_of_its_answers_took() -> None:
    times = AnswerTimes()
    know(times, 1.0, answers=96 * 2)
    know(times, 2.0, answers=32 * 2)
    assert times.get_wait(0) == 2.0
    know(times, 0.5, answers=256)
    assert times.get_wait(0) == 0.5


def test_requests_earn_a_twentieth_of_a_copy_each() -> None:
    times = AnswerTimes()
    assert take_all(times) == 10
    for _ in range(59):
        times.begin_request(0)
    assert take_all(times) == 2
    for _ in range(10_000):
        times.begin_request(0)
    assert take_all(times) == 10


def test_each_second_earns_two_copies_also_while_nobody_asks() -> None:
    times = AnswerTimes()
    assert take_all(times, 100) == 10
    assert take_all(times, 100.4) == 0
    assert take_all(times, 101.5) == 3
    assert take_all(times, 200) == 10


def test_one_request_takes_four_copies_at_most_and_one_while_nothing_is_known() -> None:
    times = AnswerTimes()
    assert times.take_copy(0, 0)
    assert not times.take_copy(0, 1)
    know(times)
    assert times.take_copy(0, 3)
    assert not times.take_copy(0, 4)


def test_copies_that_are_no_quicker_are_not_given_back() -> None:
    """As under overload: the copy waits as long as the first one."""
    times = AnswerTimes()
    know(times)
    for _ in range(10):
        assert times.take_copy(0, 0)
        assert not times.note_copy_won(0.5, took_s=0.3, waited_s=0.2, spent=1)
    assert take_all(times) == 0
    assert times.get_wait(0.5) == 0.2


def test_copies_that_are_answered_at_once_show_that_a_replica_hangs() -> None:
    times = AnswerTimes()
    know(times)
    assert take_all(times) == 10
    assert times.note_copy_won(1, took_s=0.01, waited_s=0.2, spent=1)
    assert not times.note_copy_won(1, took_s=0.01, waited_s=0.2, spent=1)
    assert times.get_wait(1) == 0.05
    assert times.take_copy(1, 15)
    assert not times.take_copy(1, 16)
    assert take_all(times, 1) == 5
    assert times.get_wait(11.5) == 0.2
    assert not times.take_copy(11.5, 4)


def test_a_copy_that_found_nobody_costs_nothing() -> None:
    times = AnswerTimes()
    assert take_all(times) == 10
    times.return_copy()
    assert take_all(times) == 1
