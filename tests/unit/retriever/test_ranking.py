import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from skillbus.embedder.domain.calibrations import calibration_of
from skillbus.retriever.domain.ranking import Candidate, Ranked, rank
from skillbus.retriever.domain.relevance import relevance_of

USE_MULTILINGUAL_V3 = relevance_of(calibration_of("use-multilingual-v3"))
SIZE = 1_000

values = st.sampled_from([None, 0.0, 0.1, 0.3, 0.3000001, 0.7, 1.0])
candidate_lists = st.lists(st.tuples(values, values), max_size=12).map(
    lambda pairs: [tool(f"t{number}", cosine, bm25) for number, (cosine, bm25) in enumerate(pairs)]
)


def tool(id_: str, cosine: float | None = None, bm25: float | None = None) -> Candidate:
    return Candidate(id_, cosine, bm25)


def ranked(candidates: list[Candidate], threshold: float = 0.0) -> tuple[Ranked, ...]:
    return rank(candidates, USE_MULTILINGUAL_V3, SIZE, threshold)


def ids(candidates: list[Candidate]) -> list[str]:
    return [place.id for place in ranked(candidates)]


@given(candidate_lists, st.randoms())
def test_the_order_of_the_candidates_makes_no_difference(candidates: list[Candidate], random_: random.Random) -> None:
    shuffled = random_.sample(candidates, len(candidates))
    assert ranked(candidates) == ranked(shuffled)


@given(candidate_lists)
def test_hits_come_in_descending_order_of_their_score(candidates: list[Candidate]) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    scores = [hit.score for hit in ranked(candidates)]
    assert scores == sorted(scores, reverse=True)


@given(candidate_lists, st.floats(0.0, 1.0))
def test_a_threshold_keeps_the_hits_that_reach_it_and_no_others(candidates: list[Candidate], threshold: float) -> None:
    """skill-vector-retrieval.md § 相似度阈值过滤"""
    everything = ranked(candidates)
    kept = ranked(candidates, threshold)
    assert kept == tuple(hit for hit in everything if hit.score >= threshold)


def test_of_equal_scores_the_higher_cosine_comes_first_then_the_lower_id() -> None:
    candidates = [tool("b", 0.0), tool("c", -0.2), tool("a", 0.0)]
    assert ids(candidates) == ["a", "b", "c"]


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
    assert rank([], USE_MULTILINGUAL_V3, 0) == ()


@given(candidate_lists)
def test_the_order_is_total(candidates: list[Candidate]) -> None:
    """Any two tools stand to each other in a list as they stand alone."""
    order = ids(candidates)
    by_id = {candidate.id: candidate for candidate in candidates}
    for first, second in itertools.combinations(order, 2):
        assert ids([by_id[second], by_id[first]]) == [first, second]
