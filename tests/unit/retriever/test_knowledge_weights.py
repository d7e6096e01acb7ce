"""What moves an item beside its likeness: each factor, and its bounds."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, TEST_EXPERIENCE
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.contracts.scope import SEGMENTS, ScopeMatch, match_scope
from skillbus.retriever.domain.knowledge.score_factors import NEUTRAL

from ...knowledge_record import NOW, item

ASKED = SearchKnowledge(query="q")


def _scope(scope: str, wanted: str) -> float:
    found = FoundItem(item=item(1, scope=scope))
    return NEUTRAL.compute_factors(ASKED, found, match_scope(scope, wanted), NOW).scope


def test_the_nearer_the_scope_the_more_it_counts() -> None:
    """knowledge-base.md § 指定范围检索"""
    exact, long, short = (_scope(scope, "/api/live/rooms") for scope in ("/api/live/rooms", "/api/live/*", "/api/*"))
    parent, general = (_scope(scope, "/api/live/rooms") for scope in ("/api/live", ""))
    within = _scope("/api/live/rooms", "/api/live/*")
    assert exact > within > long > short > parent > general == 0.0


def test_no_pattern_counts_as_much_as_what_lies_below_the_one_asked_for() -> None:
    deepest = "/".join(["", *("s" * 1 for _ in range(SEGMENTS - 2)), "*"])
    assert NEUTRAL.pattern < _scope(deepest, deepest.replace("*", "x")) < NEUTRAL.within


def test_without_a_scope_none_counts() -> None:
    assert NEUTRAL.compute_factors(ASKED, FoundItem(item=item(1, scope="/api")), None, NOW).scope == 0.0


@pytest.mark.parametrize(("priority", "moved"), [(0, -0.3), (5, 0.0), (10, 0.3)])
def test_priority_moves_an_item_up_or_down(priority: int, moved: float) -> None:
    found = FoundItem(item=item(1, priority=priority))
    assert NEUTRAL.compute_factors(ASKED, found, None, NOW).priority == pytest.approx(moved)


def test_what_was_learnt_from_tests_ages_and_nothing_else_does() -> None:
    for kind in KNOWN_TYPES:
        found = FoundItem(item=item(1, type=kind, updated_at=NOW - timedelta(days=90)))
        aged = NEUTRAL.compute_factors(ASKED, found, None, NOW).freshness
        assert aged == pytest.approx(-0.15 if kind == TEST_EXPERIENCE else 0.0)


def test_what_is_changed_again_is_fresh_again() -> None:
    for days, least in ((0, 0.0), (-3, 0.0), (100_000, -0.3)):
        found = FoundItem(item=item(1, type="test_experience", updated_at=NOW - timedelta(days=days)))
        assert NEUTRAL.compute_factors(ASKED, found, None, NOW).freshness == pytest.approx(least)


def test_votes_move_an_item_more_the_more_of_them_agree() -> None:
    """knowledge-base.md § 收集使用反馈"""

    def moved(helpful: float, unhelpful: float) -> float:
        found = FoundItem(item=item(1), helpful=helpful, unhelpful=unhelpful)
        return NEUTRAL.compute_factors(ASKED, found, None, NOW).feedback

    assert moved(0, 0) == 0.0 == moved(7, 7)
    assert moved(1, 0) == pytest.approx(0.4 / 9)
    assert moved(0, 1) == -moved(1, 0)
    assert moved(1, 0) < moved(8, 0) < moved(80, 0) < 0.4


def test_votes_move_nothing_where_they_are_switched_off() -> None:
    found = FoundItem(item=item(1), helpful=80)
    assert NEUTRAL.compute_factors(SearchKnowledge(query="q", feedback=False), found, None, NOW).feedback == 0.0


@given(
    st.integers(0, 10),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.integers(0, 300_000),
    st.sampled_from([*ScopeMatch, None]),
    st.sampled_from(list(KNOWN_TYPES)),
)
def test_each_factor_stays_within_its_bounds(
    priority: int, helpful: float, unhelpful: float, days: int, near: ScopeMatch | None, kind: str
) -> None:
    one = item(1, priority=priority, type=kind, updated_at=NOW - timedelta(days=days))
    found = FoundItem(item=one, helpful=helpful, unhelpful=unhelpful)
    factors = NEUTRAL.compute_factors(ASKED, found, near, NOW)
    assert 0.0 <= factors.scope <= 3.0
    assert abs(factors.priority) <= 0.3
    assert -0.3 <= factors.freshness <= 0.0
    assert abs(factors.feedback) <= 0.4
