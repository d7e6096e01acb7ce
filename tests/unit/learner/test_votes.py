"""What people say: weighed for ranking, and with an interval for reports."""

from datetime import UTC, datetime, timedelta

import pytest

from skillbus.learner.domain.usage import HALF_LIFE, Vote, estimate_rate, weigh_votes

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_a_vote_counts_half_after_its_half_life() -> None:
    votes = [Vote(True, NOW), Vote(True, NOW - HALF_LIFE), Vote(False, NOW - 2 * HALF_LIFE)]
    assert weigh_votes(votes, NOW) == pytest.approx((1.5, 0.25))


def test_the_half_life_is_180_days() -> None:
    assert weigh_votes([Vote(True, NOW - timedelta(days=180))], NOW) == pytest.approx((0.5, 0.0))


def test_a_vote_of_a_clock_that_is_ahead_counts_no_more_than_one_of_now() -> None:
    assert weigh_votes([Vote(False, NOW + timedelta(days=400))], NOW) == (0.0, 1.0)


def test_where_nothing_was_said_there_is_no_rate() -> None:
    assert estimate_rate(0, 0) is None


@pytest.mark.parametrize(
    ("helpful", "unhelpful", "low", "high"),
    [
        (1, 0, 0.2065, 1.0),
        (0, 1, 0.0, 0.7935),
        (8, 2, 0.4902, 0.9433),
        (81, 182, 0.2553, 0.3662),  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I
        (15, 133, 0.0624, 0.1605),  # as above
    ],
)
def test_the_interval_is_wilsons(helpful: int, unhelpful: int, low: float, high: float) -> None:
    said = estimate_rate(helpful, unhelpful)
    assert said is not None
    assert (said.low, said.high) == pytest.approx((low, high), abs=5e-5)
    assert said.share == helpful / (helpful + unhelpful)
    assert said.count == helpful + unhelpful


@pytest.mark.parametrize("votes", [1, 2, 3, 10, 1_000, 1_000_000])
@pytest.mark.parametrize("helpful", [True, False])
def test_the_share_lies_in_its_interval(votes: int, helpful: bool) -> None:
    said = estimate_rate(votes if helpful else 0, 0 if helpful else votes)
    assert said is not None
    assert 0.0 <= said.low <= said.share <= said.high <= 1.0
