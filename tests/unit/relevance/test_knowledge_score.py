"""How well an item answers a query, and which tags it names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.knowledge_evidence import KnowledgeRelevance, derive_knowledge_relevance, sum_own_weights
from skillbus.relevance.score import NEUTRAL, Relevance
from skillbus.retriever.domain.knowledge.score_factors import names_tag

USE = derive_knowledge_relevance(Relevance(1.333, 1.305, 0.108, 3.0, 1.0))
COSINES = st.one_of(st.none(), st.floats(-1, 1))


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 50), st.floats(0, 50), st.floats(0, 100))
def test_more_of_either_side_never_lowers_it(one: float, other: float, words: float, more: float, asked: float) -> None:
    relevance = KnowledgeRelevance(USE, asked, 1000)
    near, far, few, many = max(one, other), min(one, other), min(words, more), max(words, more)
    assert relevance.compute_evidence(near, many) >= relevance.compute_evidence(far, few)
    assert relevance.compute_evidence(None, many) >= relevance.compute_evidence(None, few)


def test_as_many_words_of_a_longer_query_say_less() -> None:
    short, long = KnowledgeRelevance(USE, 4.0, 1000), KnowledgeRelevance(USE, 16.0, 1000)
    assert short.compute_evidence(0.5, 10.0) > long.compute_evidence(0.5, 10.0)


def test_no_rounding_of_a_cosine_outweighs_anything() -> None:
    relevance = KnowledgeRelevance(derive_knowledge_relevance(NEUTRAL), 4.0, 1000)
    assert relevance.compute_evidence(1.0, 1.0) == relevance.compute_evidence(0.995, 1.0)
    assert relevance.compute_evidence(-1.0, 0.0) == relevance.compute_evidence(0.005, 0.0)


@pytest.mark.parametrize(
    ("query", "terms", "own"),
    [
        ("which header", ("which", "header"), 2.0),
        ("直播 header 参数", ("直播", "header", "参数", "live", "parameter"), 3.0),
    ],
)
def test_translations_are_no_terms_of_the_query_itself(query: str, terms: tuple[str, ...], own: float) -> None:
    assert sum_own_weights(query, terms, [1.0] * len(terms)) == own


@pytest.mark.parametrize(
    ("query", "tag", "named"),
    [
        ("what is timeout and its default value", "timeout", True),
        ("what is Timeout?", "timeout", True),
        ("set timeout.", "timeout", True),
        ("what is keepalive_timeout", "timeout", False),
        ("what is timeout.read", "timeout", False),
        ("key-auth", "key", False),
        ("哪些接口需要game-id参数", "game-id", True),
        ("直播电商模块", "电商", True),
        ("a b", "a", False),
        ("", "timeout", False),
        ("key-auth and key", "key", True),
    ],
)
def test_a_tag_is_named_as_a_whole(query: str, tag: str, named: bool) -> None:
    assert names_tag(query, ("other", tag)) is named
