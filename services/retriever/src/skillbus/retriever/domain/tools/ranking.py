"""Ranking of the candidates of both sides of a tool search.

The order is total: evidence, then cosine, both descending, then id. Then it is diversified: a tool with the
words of a tool above it loses evidence, so that variants of one tool do not take all the places. Scores come in
descending order in either case, and the order of the candidates makes no difference.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from skillbus.relevance.score import Relevance, compute_probability, compute_rarest_idf
from skillbus.retriever.domain.explanation import number_places
from skillbus.retriever.domain.index import IndexCandidate

ALIKE: Final = 0.5
"""Log-odds that a tool loses if its words are exactly those of a tool above it."""
NEAR_COPY: Final = 0.5
"""Likeness from which a tool is said to repeat another."""
POOL: Final = 16
"""Tools that are compared with one another, or as many as requested if that is more; 10, 20 and 32 found the same."""

_DIGITS: Final = 12
"""Digits of a likeness: sums of the same numbers in another order differ after them."""

SparseWeights = Mapping[int, float]
"""A tool's sparse vector: weights by the indices of its terms."""


class RankedTool(NamedTuple):
    """A candidate in its place."""

    id: str
    evidence: float
    """Log-odds of fitting."""
    cosine: float | None
    bm25: float | None
    dense_rank: int | None
    """Place on the dense side, from 1; None without a cosine."""
    lexical_rank: int | None
    """Place on the lexical side, from 1; None without a shared word."""
    repeats: str | None = None
    """A point above it that says much the same, and for which its evidence was lowered."""

    @property
    def score(self) -> float:
        """From 0 to 1."""
        return compute_probability(self.evidence)


def rank_candidates(candidates: Sequence[IndexCandidate], relevance: Relevance, indexed: int) -> tuple[RankedTool, ...]:
    """Sort the candidates, best first; their ids must be distinct.

    `indexed` is the number of points that the store counts IDF over.
    """
    idf = compute_rarest_idf(indexed)
    scored = [(relevance.compute_evidence(c.cosine, (c.bm25 or 0.0) / idf), c) for c in candidates]
    scored.sort(key=lambda pair: (-pair[0], math.inf if pair[1].cosine is None else -pair[1].cosine, pair[1].id))
    dense = number_places((-c.cosine, c.id) for c in candidates if c.cosine is not None)
    lexical = number_places((-c.bm25, c.id) for c in candidates if c.bm25 is not None)
    return tuple(
        RankedTool(found.id, evidence, found.cosine, found.bm25, dense.get(found.id), lexical.get(found.id))
        for evidence, found in scored
    )


def diversify(pool: Sequence[RankedTool], weights: Mapping[str, SparseWeights]) -> Iterator[RankedTool]:
    """Yield the pool, which comes best first, so that each tool repeats those above it as little as possible.

    `weights` has those of every point of the pool. Evidence never rises from one to the next.
    """
    likeness = _compare([weights[it.id] for it in pool])
    evidence = [it.evidence for it in pool]
    repeated: list[str | None] = [None] * len(pool)
    left = list(range(len(pool)))
    while left:
        at = max(left, key=evidence.__getitem__)  # the first of equals
        left.remove(at)
        best = pool[at]
        yield best if evidence[at] == best.evidence else best._replace(evidence=evidence[at], repeats=repeated[at])
        for place in left:
            lowered = pool[place].evidence - ALIKE * likeness[at][place]
            if lowered < evidence[place]:  # only the most similar tool above counts
                evidence[place] = lowered
                repeated[place] = best.id if likeness[at][place] >= NEAR_COPY else None


def _compare(vectors: Sequence[SparseWeights]) -> list[list[float]]:
    """Return the cosines of sparse vectors with one another; 0 for an empty one."""
    sizes = [len(vector) for vector in vectors]
    terms = np.fromiter(chain.from_iterable(vectors), np.int64, sum(sizes))
    values = np.fromiter(chain.from_iterable(vector.values() for vector in vectors), np.float64, len(terms))
    distinct, column = np.unique(terms, return_inverse=True)
    matrix = np.zeros((len(vectors), len(distinct)))
    matrix[np.repeat(np.arange(len(vectors)), sizes), column] = values
    norms = np.sqrt((matrix * matrix).sum(axis=1, keepdims=True))
    matrix /= np.where(norms == 0, 1.0, norms)
    cosines: list[list[float]] = (matrix @ matrix.T).round(_DIGITS).tolist()
    return cosines
