"""The order of what may be shown."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import permutations

import pytest

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.relevance.knowledge_evidence import KnowledgeRelevance
from skillbus.relevance.score import NEUTRAL, compute_rarest_idf
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.knowledge.ranking import KnowledgeRanking, RankedItem
from skillbus.retriever.domain.knowledge.score_factors import NEUTRAL as WEIGHTS
from skillbus.retriever.domain.knowledge.score_factors import KnowledgeWeights

from ...knowledge_record import NOW, id_of, item


@dataclass(frozen=True)
class Scored:
    """An item, and its candidate."""

    found: FoundItem
    cosine: float | None
    bm25: float | None


def scored(number: int, cosine: float | None = 0.5, bm25: float | None = None, **more: object) -> Scored:
    return Scored(FoundItem(item=item(number, **more)), cosine, bm25)  # type: ignore[arg-type]  # of an item


def rank(
    *items: Scored, weights: KnowledgeWeights = WEIGHTS, indexed: int = 100, **more: object
) -> tuple[RankedItem, ...]:
    request = SearchKnowledge.model_validate({"query": "q", **more})
    candidates = {one.found.item.id: IndexCandidate(one.found.item.id, one.cosine, one.bm25) for one in items}
    ranking = KnowledgeRanking(request, weights, KnowledgeRelevance(NEUTRAL, 1.0, indexed), NOW)
    return ranking.rank_items([one.found for one in items], candidates)


def ids(ranked: tuple[RankedItem, ...]) -> list[str]:
    return [it.id for it in ranked]


def test_without_factors_the_score_is_the_relevance_of_both_sides() -> None:
    (only,) = rank(scored(1, 0.7, 3.0))
    assert only.score == pytest.approx(NEUTRAL.compute_score(0.7, 3.0 / compute_rarest_idf(100)))


def test_factors_are_added_to_the_evidence() -> None:
    (plain,) = rank(scored(1, 0.7))
    (moved,) = rank(scored(1, 0.7, scope="/api", priority=10), scope="/api")
    assert moved.evidence == plain.evidence
    assert moved.log_odds == pytest.approx(plain.log_odds + 3.3)
    assert moved.score > plain.score


def test_a_tag_that_the_query_names_counts() -> None:
    ranked = rank(scored(1, tags=("keepalive_timeout",)), scored(2, tags=("timeout",)), query="what is timeout?")
    assert [(it.id, it.factors.tag) for it in ranked] == [(id_of(2), 0.75), (id_of(1), 0.0)]


def test_the_order_does_not_depend_on_that_of_what_was_found() -> None:
    items = (scored(1, 0.5), scored(2, 0.5), scored(3, 0.5, 1.0), scored(4, 0.9), scored(5, None, 1.0))
    orders = {tuple(ids(rank(*some))) for some in permutations(items)}
    assert len(orders) == 1
    assert ids(rank(scored(2), scored(1))) == [id_of(1), id_of(2)]


def test_what_says_nothing_about_the_scope_is_left_out_and_counts_among_the_places_of_its_side() -> None:
    first, *rest = rank(scored(1, 0.9, scope="/other"), scored(2, 0.5, scope="/api/live/*"), scope="/api/live/rooms")
    assert (first.id, first.dense_rank, rest) == (id_of(2), 2, [])


@pytest.mark.spec("knowledge-base.md § 指定范围检索")
def test_a_nearer_scope_comes_first_however_much_nearer_the_text_of_another_is() -> None:
    """knowledge-base.md § 指定范围检索"""
    ranked = rank(scored(1, 0.99, 40.0), scored(2, 0.2, scope="/api/live/rooms"), scope="/api/live/rooms")
    assert ids(ranked) == [id_of(2), id_of(1)]
    assert ranked[0].score < ranked[1].score


def test_the_higher_cosine_comes_first_where_evidence_and_factors_are_equal() -> None:
    ranked = rank(scored(1, 0.992), scored(2, 0.999), scored(3, None, None))
    assert ranked[0].log_odds == ranked[1].log_odds
    assert ids(ranked) == [id_of(2), id_of(1)]


def test_of_equal_scores_an_item_without_a_cosine_comes_last() -> None:
    evens_out = NEUTRAL.lexical_alone_half * compute_rarest_idf(100)
    ranked = rank(scored(1, None, evens_out), scored(2, 0.5))
    assert [it.log_odds for it in ranked] == [0.0, 0.0]
    assert ids(ranked) == [id_of(2), id_of(1)]


@pytest.mark.parametrize("rounding", [1e-3, -1e-3])
def test_the_rounding_of_a_cosine_near_1_outweighs_no_factor(rounding: float) -> None:
    ranked = rank(scored(1, 1.0 - 1e-3 + rounding), scored(2, 1.0 - 1e-3, priority=6))
    assert ids(ranked) == [id_of(2), id_of(1)]


def test_items_that_point_away_from_the_query_are_ordered_by_scope_too() -> None:
    ranked = rank(scored(1, -0.1), scored(2, -0.2, scope="/api"), scope="/api")
    assert ids(ranked) == [id_of(2), id_of(1)]


def test_by_words_alone_what_shares_none_is_not_found() -> None:
    assert ids(rank(scored(1, None, 2.0), scored(2, None, None))) == [id_of(1)]


def test_each_side_gives_its_own_places() -> None:
    ranked = {it.id: it for it in rank(scored(1, 0.9), scored(2, 0.5, 4.0), scored(3, 0.4, 5.0))}
    assert [(it.dense_rank, it.lexical_rank) for _, it in sorted(ranked.items())] == [(1, None), (2, 2), (3, 1)]


def test_of_items_as_like_the_fresher_and_the_more_helpful_comes_first() -> None:
    """knowledge-base.md § 收集使用反馈"""
    old = NOW - timedelta(days=400)
    aged = scored(1, type="test_experience", updated_at=old)
    assert ids(rank(aged, scored(2, type="test_experience", updated_at=NOW))) == [id_of(2), id_of(1)]
    voted = replace(scored(4), found=FoundItem(item=item(4), helpful=5.0))
    assert ids(rank(scored(3), voted)) == [id_of(4), id_of(3)]
    assert ids(rank(scored(3), voted, feedback=False)) == [id_of(3), id_of(4)]
