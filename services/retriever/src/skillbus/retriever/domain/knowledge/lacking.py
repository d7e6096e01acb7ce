"""Items that the index lacks, or has at another version, scored by the record's own text."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.learner.index import FoundItem
from skillbus.relevance.score import compute_rarest_idf
from skillbus.retriever.domain.knowledge.ports import ItemVectors
from skillbus.retriever.domain.knowledge.ranking import ScoredItem
from skillbus.retriever.domain.query import EmbeddedQuery

_IDF_SHARE: Final = 0.5
"""Of the IDF of the rarest word: how many items hold a word only the index knows, and it is not asked for each word.

So their BM25 is an estimate, for the second or two until the index has them: words that many items hold count too much,
words that only this item holds half.
"""


def score_of(found: FoundItem, vectors: ItemVectors, query: EmbeddedQuery, indexed: int) -> ScoredItem:
    """How like the item is to the query; `indexed` is the number of points that the store counts IDF over."""
    cosine = None
    if vectors.dense is not None and query.dense is not None:
        cosine = float(np.asarray(query.dense, np.float32) @ vectors.dense)
    words = float(_weights(query.indices, vectors) @ np.asarray(query.values, np.float32))
    bm25 = _IDF_SHARE * compute_rarest_idf(indexed) * words
    return ScoredItem(found, cosine, bm25 or None, indexed=False)


def held_terms(query: EmbeddedQuery, vectors: ItemVectors) -> frozenset[int]:
    """Those indices of the query's terms that the item holds."""
    weights = _weights(query.indices, vectors)
    return frozenset(index for index, weight in zip(query.indices, weights, strict=True) if weight)


def _weights(terms: Sequence[int], vectors: ItemVectors) -> NDArray[np.float32]:
    """The item's weight of each of these terms; 0 where it does not hold one."""
    wanted = np.asarray(terms, np.uint32)
    if not len(vectors.indices):
        return np.zeros(len(wanted), np.float32)
    places = np.minimum(np.searchsorted(vectors.indices, wanted), len(vectors.indices) - 1)
    weights: NDArray[np.float32] = np.where(vectors.indices[places] == wanted, vectors.values[places], np.float32(0))
    return weights
