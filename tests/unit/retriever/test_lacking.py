"""Items that the index lacks, scored by their own vectors."""

import numpy as np
import pytest

from skillbus.contracts.learner.index import FoundItem
from skillbus.relevance.score import NEUTRAL, compute_rarest_idf
from skillbus.retriever.domain.knowledge.lacking import held_terms, score_of
from skillbus.retriever.domain.knowledge.ports import ItemVectors
from skillbus.retriever.domain.query import EmbeddedQuery

from ...knowledge_record import item

FOUND = FoundItem(item=item(1))


def query(*indices: int, dense: tuple[float, ...] | None = (0.6, 0.8)) -> EmbeddedQuery:
    return EmbeddedQuery(dense, indices, [1.0] * len(indices), [str(i) for i in indices], "model", NEUTRAL)


def vectors(dense: tuple[float, ...] | None, **weights: float) -> ItemVectors:
    indices = sorted(int(index.removeprefix("t")) for index in weights)
    return ItemVectors(
        None if dense is None else np.array(dense, np.float32),
        np.array(indices, np.uint32),
        np.array([weights[f"t{index}"] for index in indices], np.float32),
    )


def test_the_cosine_is_that_of_query_and_item() -> None:
    assert score_of(FOUND, vectors((0.6, 0.8)), query(), 10).cosine == pytest.approx(1.0)
    assert score_of(FOUND, vectors((0.8, -0.6)), query(), 10).cosine == pytest.approx(0.0, abs=1e-6)
    assert score_of(FOUND, vectors(None), query(), 10).cosine is None
    assert score_of(FOUND, vectors((1.0, 0.0)), query(dense=None), 10).cosine is None


@pytest.mark.parametrize("indexed", [0, 1, 10_000])
def test_a_shared_word_counts_half_of_one_that_only_this_item_has(indexed: int) -> None:
    scored = score_of(FOUND, vectors(None, t3=1.2, t7=0.5, t4294967295=2.0), query(3, 5, 4294967295), indexed)
    assert scored.bm25 == pytest.approx(0.5 * (1.2 + 2.0) * compute_rarest_idf(indexed))


def test_words_that_are_not_shared_count_nothing() -> None:
    assert score_of(FOUND, vectors(None, t3=1.0), query(1, 2, 4), 10).bm25 is None
    assert score_of(FOUND, vectors(None), query(1), 10).bm25 is None
    assert score_of(FOUND, vectors(None, t1=1.0), query(), 10).bm25 is None


def test_terms_of_the_query_that_the_item_holds_are_told() -> None:
    assert held_terms(query(3, 5, 9), vectors(None, t3=1.0, t9=0.1)) == {3, 9}
    assert held_terms(query(3), vectors(None)) == frozenset()
