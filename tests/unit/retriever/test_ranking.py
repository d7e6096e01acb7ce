import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.score import build_relevance, find_calibration
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.tools.ranking import ALIKE, RankedTool, diversify, rank_candidates

USE_MULTILINGUAL_V3 = build_relevance(find_calibration("use-multilingual-v3"))
SIZE = 1_000

values = st.sampled_from([None, 0.0, 0.1, 0.3, 0.3000001, 0.7, 1.0])
candidate_lists = st.lists(st.tuples(values, values), max_size=12).map(
    lambda pairs: [tool(f"t{number}", cosine, bm25) for number, (cosine, bm25) in enumerate(pairs)]
)


def tool(id_: str, cosine: float | None = None, bm25: float | None = None) -> IndexCandidate:
    return IndexCandidate(id_, cosine, bm25)


def ranked(candidates: list[IndexCandidate]) -> tuple[RankedTool, ...]:
    return rank_candidates(candidates, USE_MULTILINGUAL_V3, SIZE)


def ids(candidates: list[IndexCandidate]) -> list[str]:
    return [place.id for place in ranked(candidates)]


@given(candidate_lists, st.randoms())
def test_the_order_of_the_candidates_makes_no_difference(
    candidates: list[IndexCandidate], random_: random.Random
) -> None:
    shuffled = random_.sample(candidates, len(candidates))
    assert ranked(candidates) == ranked(shuffled)


@given(candidate_lists)
def test_hits_come_in_descending_order_of_their_score(candidates: list[IndexCandidate]) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    scores = [hit.score for hit in ranked(candidates)]
    assert scores == sorted(scores, reverse=True)


def test_of_equal_scores_the_higher_cosine_comes_first_then_the_lower_id() -> None:
    candidates = [tool("c", 0.0), tool("a", -0.2), tool("b", 0.0)]
    assert ids(candidates) == ["b", "c", "a"]


def test_of_equal_scores_a_tool_without_a_cosine_comes_last() -> None:
    assert ids([tool("a"), tool("c", -0.2), tool("b", 0.0)]) == ["b", "c", "a"]


def test_evidence_that_rounds_to_the_same_score_still_orders() -> None:
    candidates = [tool("near", 0.6, 400.0), tool("far", 0.3, 500.0)]
    hits = ranked(candidates)
    assert [hit.id for hit in hits] == ["far", "near"]
    assert hits[0].score == hits[1].score == 1.0


def test_a_tool_that_both_sides_found_beats_one_that_a_side_found() -> None:
    candidates = [tool("dense", 0.5), tool("both", 0.5, 6.0), tool("lexical", 0.2, 6.0)]
    assert ids(candidates)[0] == "both"


def test_without_a_model_the_shared_words_order() -> None:
    """skill-vector-retrieval.md § 嵌入模型加载失败"""
    hits = ranked([tool("some", None, 3.0), tool("more", None, 9.0)])
    assert [hit.id for hit in hits] == ["more", "some"]
    assert all(hit.cosine is None and 0 < hit.score < 1 for hit in hits)
    assert (hits[0].dense_rank, hits[0].lexical_rank) == (None, 1)


def test_every_place_tells_the_ranks_of_both_sides() -> None:
    places = {place.id: place for place in ranked([tool("x", 0.4, 5.0), tool("y", 0.9), tool("z", 0.1, 2.0)])}
    assert (places["x"].dense_rank, places["x"].lexical_rank) == (2, 1)
    assert (places["y"].dense_rank, places["y"].lexical_rank) == (1, None)
    assert (places["z"].dense_rank, places["z"].lexical_rank) == (3, 2)


def test_nothing_found_gives_nothing() -> None:
    """tool-type.md § 边界测试, 空结果"""
    assert rank_candidates([], USE_MULTILINGUAL_V3, 0) == ()


@given(candidate_lists)
def test_the_order_is_total(candidates: list[IndexCandidate]) -> None:
    """Any two tools stand to each other in a list as they stand alone."""
    order = ids(candidates)
    by_id = {candidate.id: candidate for candidate in candidates}
    for first, second in itertools.combinations(order, 2):
        assert ids([by_id[second], by_id[first]]) == [first, second]


words = st.dictionaries(st.integers(0, 5), st.floats(0.1, 2.0), max_size=4)


@given(candidate_lists, st.lists(words, min_size=12, max_size=12))
def test_spreading_loses_nobody_and_keeps_descending_scores_and_the_first(
    candidates: list[IndexCandidate], weights: list[dict[int, float]]
) -> None:
    pool = ranked(candidates)
    order = list(diversify(pool, {it.id: weights[int(it.id[1:])] for it in pool}))
    assert {it.id for it in order} == {it.id for it in pool}
    assert [it.score for it in order] == sorted((it.score for it in order), reverse=True)
    assert order[:1] == list(pool[:1])


def test_a_tool_that_repeats_one_above_it_gives_way_to_one_that_does_not() -> None:
    pool = ranked([tool("git", 0.5, 3.0), tool("git2", 0.499, 3.0), tool("other", 0.46, 3.0)])
    order = list(diversify(pool, {"git": {1: 1.0, 2: 0.5}, "git2": {1: 1.0, 2: 0.5}, "other": {3: 1.0}}))
    assert [(it.id, it.repeats) for it in order] == [("git", None), ("other", None), ("git2", "git")]
    before = next(it for it in pool if it.id == "git2").evidence
    assert order[2].evidence == pytest.approx(before - ALIKE)


def test_only_the_likest_of_those_above_counts() -> None:
    pool = ranked([tool("a", 0.9, 9.0), tool("b", 0.8, 9.0), tool("c", 0.3, 1.0)])
    *_, last = diversify(pool, {"a": {1: 1.0, 2: 1.0}, "b": {1: 1.0}, "c": {1: 1.0}})
    assert (last.id, last.repeats) == ("c", "b")
    assert last.evidence == pytest.approx(pool[2].evidence - ALIKE)


def test_a_tool_that_shares_a_word_with_one_above_is_no_copy_of_it() -> None:
    pool = ranked([tool("a", 0.9, 9.0), tool("b", 0.3, 1.0)])
    *_, last = diversify(pool, {"a": {1: 1.0, 2: 2.0, 3: 2.0}, "b": {1: 1.0, 4: 2.0}})
    assert last.repeats is None
    assert last.evidence < pool[1].evidence


def test_a_tool_without_words_repeats_nobody() -> None:
    pool = ranked([tool("a", 0.9), tool("b", 0.8)])
    assert [it.repeats for it in diversify(pool, {"a": {}, "b": {}})] == [None, None]
