import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.contracts.embedder.registry import Calibration
from skillbus.relevance.score import (
    NEUTRAL,
    Relevance,
    build_relevance,
    compute_probability,
    compute_rarest_idf,
    find_calibration,
)

USE_MULTILINGUAL_V3 = build_relevance(find_calibration("use-multilingual-v3"))
MAPS = [USE_MULTILINGUAL_V3, NEUTRAL]
maps = st.sampled_from(MAPS)
cosines = st.floats(-1.0, 1.0)
words = st.floats(0.0, 30.0)


@given(maps, cosines, cosines, words)
def test_a_higher_cosine_never_lowers_the_score(relevance: Relevance, one: float, other: float, shared: float) -> None:
    low, high = sorted((one, other))
    assert relevance.compute_score(low, shared) <= relevance.compute_score(high, shared)


@given(maps, st.none() | cosines, words, words)
def test_more_shared_words_never_lower_the_score(
    relevance: Relevance, cosine: float | None, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert relevance.compute_score(cosine, low) <= relevance.compute_score(cosine, high)


@given(maps, st.none() | cosines, words)
def test_the_score_is_between_0_and_1(relevance: Relevance, cosine: float | None, shared: float) -> None:
    assert 0.0 <= relevance.compute_score(cosine, shared) <= 1.0


@pytest.mark.parametrize("relevance", MAPS)
def test_without_shared_words_a_cosine_of_0_scores_0_and_of_1_scores_1(relevance: Relevance) -> None:
    """skill-vector-retrieval.md § 相似度计算验证"""
    assert relevance.compute_score(0.0, 0.0) == 0.0
    assert relevance.compute_score(-0.3, 0.0) == 0.0
    assert relevance.compute_score(0.02, 0.0) < 0.05
    assert relevance.compute_score(1.0, 0.0) == 1.0
    assert relevance.compute_score(0.999, 0.0) > 0.99


@pytest.mark.parametrize("relevance", MAPS)
def test_the_score_rises_strictly_with_the_cosine_where_nothing_is_shared(relevance: Relevance) -> None:
    scores = [relevance.compute_score(step / 100, 0.0) for step in range(101)]
    assert all(low < high for low, high in itertools.pairwise(scores))


def test_the_neutral_map_leaves_the_cosine_as_it_is() -> None:
    for cosine in (0.0, 0.25, 0.5, 0.83, 1.0):
        assert NEUTRAL.compute_score(cosine, 0.0) == pytest.approx(cosine)


def test_words_that_only_one_tool_has_outweigh_a_model_that_sees_nothing() -> None:
    assert USE_MULTILINGUAL_V3.compute_score(0.0, 4.0) > 0.8
    assert USE_MULTILINGUAL_V3.compute_score(-0.1, 4.0) == USE_MULTILINGUAL_V3.compute_score(0.1, 4.0)


def test_little_lexical_evidence_adds_little() -> None:
    for cosine in (0.0, 0.05, 0.4, 0.9):
        alone, beside = (USE_MULTILINGUAL_V3.compute_score(cosine, shared) for shared in (0.0, 1e-6))
        assert beside == pytest.approx(alone, abs=1e-4)


def test_without_a_model_words_alone_score_from_0_towards_1() -> None:
    assert USE_MULTILINGUAL_V3.compute_score(None, 0.0) == 0.0
    assert USE_MULTILINGUAL_V3.compute_score(None, USE_MULTILINGUAL_V3.lexical_alone_half) == pytest.approx(0.5)
    assert USE_MULTILINGUAL_V3.compute_score(None, 6.0) > 0.99


@pytest.mark.parametrize("size", [1, 3, 100, 10_000])
def test_the_rarest_word_counts_the_same_in_a_catalogue_of_any_size(size: int) -> None:
    qdrant_idf = math.log((size - 1 + 0.5) / (1 + 0.5) + 1)
    assert qdrant_idf / compute_rarest_idf(size) == pytest.approx(1.0)


def test_an_empty_catalogue_has_an_idf_too() -> None:
    assert compute_rarest_idf(0) == compute_rarest_idf(1) > 0


def test_the_default_model_has_its_own_map_and_any_other_the_neutral_one() -> None:
    assert build_relevance(None) is NEUTRAL
    assert NEUTRAL.compute_score(0.4, 0.0) == pytest.approx(0.4)
    fitted = build_relevance(Calibration(slope=2.0, lexical=1.5, offset=-0.5))
    assert (fitted.dense, fitted.lexical, fitted.offset) == (2.0, 1.5, -0.5)


@given(st.floats(-1e6, 1e6))
def test_a_probability_and_its_complement_make_1(log_odds: float) -> None:
    assert compute_probability(log_odds) + compute_probability(-log_odds) == pytest.approx(1.0)


def test_infinite_log_odds_are_certainties() -> None:
    assert (compute_probability(-math.inf), compute_probability(math.inf)) == (0.0, 1.0)
