"""When a request is made again: backoff with full jitter, and what a server asks for."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.providers.retry import RetrySchedule, parse_retry_after

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC).timestamp()
SCHEDULE = RetrySchedule(tries=4, base_s=1.0, cap_s=3.0, patience_s=60.0)
LONG = 1e6


@pytest.mark.parametrize(("failed", "longest"), [(1, 1.0), (2, 2.0), (3, 3.0)])
def test_the_wait_is_anywhere_below_a_bound_that_doubles_up_to_a_cap(failed: int, longest: float) -> None:
    assert SCHEDULE.compute_delay_s(failed, None, LONG, jitter=0.0) == 0.0
    assert SCHEDULE.compute_delay_s(failed, None, LONG, jitter=0.5) == pytest.approx(longest / 2)


def test_the_last_try_is_followed_by_none() -> None:
    assert SCHEDULE.compute_delay_s(3, None, LONG, jitter=0.0) is not None
    assert SCHEDULE.compute_delay_s(4, None, LONG, jitter=0.0) is None


def test_no_less_is_waited_than_the_server_asks_for_and_a_little_more() -> None:
    assert SCHEDULE.compute_delay_s(1, 20.0, LONG, jitter=0.0) == 20.0
    assert SCHEDULE.compute_delay_s(1, 20.0, LONG, jitter=0.5) == 20.5


def test_a_server_that_asks_for_more_patience_than_there_is_is_given_up() -> None:
    assert SCHEDULE.compute_delay_s(1, 60.0, LONG, jitter=0.0) == 60.0
    assert SCHEDULE.compute_delay_s(1, 60.1, LONG, jitter=0.0) is None
    assert SCHEDULE.compute_delay_s(1, float("inf"), LONG, jitter=0.0) is None


def test_a_wait_that_outlasts_the_deadline_is_not_begun() -> None:
    assert SCHEDULE.compute_delay_s(1, 5.0, left_s=5.1, jitter=0.0) == 5.0
    assert SCHEDULE.compute_delay_s(1, 5.0, left_s=5.0, jitter=0.0) is None
    assert SCHEDULE.compute_delay_s(1, None, left_s=-1.0, jitter=0.0) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Sun, 22 Nov 2026 12:00:30 GMT", 30.0),
        ("Sunday, 22-Nov-26 12:00:30 GMT", 30.0),
        ("Sun Nov 22 12:00:30 2026", 30.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
def test_both_forms_of_retry_after_are_read(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_a_date_written_by_another_library_is_read() -> None:
    date = datetime.fromtimestamp(NOW + 3600, tz=UTC)
    assert parse_retry_after(format_datetime(date, usegmt=True), NOW) == 3600.0


def test_an_endless_number_is_longer_than_any_patience() -> None:
    assert parse_retry_after("9" * 5000, NOW) == float("inf")


@pytest.mark.parametrize("value", [None, "", "soon", "-5", "1.5", "٣", "Sun, 99 Nov 2026 12:00:30 GMT"])
def test_what_cannot_be_read_asks_for_nothing(value: str | None) -> None:
    assert parse_retry_after(value, NOW) is None


@given(st.text(max_size=60))
def test_no_header_breaks_the_parser(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or seconds >= 0
