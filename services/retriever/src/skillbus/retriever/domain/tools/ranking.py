"""What both sides of a search found → one order, best first.

The order is total: evidence, then cosine, both descending, then id. Then it is spread: a tool whose words are those of
one above it gives way, so that the few places are not taken by one tool in many variants. Scores come in descending
order in either case, and the order of the candidates makes no difference.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from skillbus.relevance.score import Relevance, compute_probability, compute_rarest_idf

ALIKE: Final = 0.5
"""Log-odds that a tool loses whose words are exactly those of one above it."""
NEAR_COPY: Final = 0.5
"""Likeness from which a tool is said to repeat another."""
POOL: Final = 16
"""Tools that are looked at for likeness, or as many as are asked for if that is more; 10, 20 and 32 found the same."""

_DIGITS: Final = 12
"""Of a likeness: sums of the same numbers in another order differ after them."""

Weights = Mapping[int, float]
"""A tool's sparse vector: weights by the indices of its terms."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that one side of the search found, or both."""

    id: str
    cosine: float | None = None
    """Of the request or of one of its sentences, whichever is nearest; also of a point that only the lexical side
    found; None when no dense vector could be had."""
    bm25: float | None = None
    """None where the lexical side did not find the point."""


class Ranked(NamedTuple):
    """A candidate in its place."""

    id: str
    evidence: float
    """Log-odds of fitting."""
    cosine: float | None
    bm25: float | None
    dense_rank: int | None
    """Its place on the dense side, from 1; None where that side did not find it. So is `lexical_rank`."""
    lexical_rank: int | None
    repeats: str | None = None
    """A point above it that says much the same, and for which its evidence was lowered."""

    @property
    def score(self) -> float:
        """From 0 to 1."""
        return compute_probability(self.evidence)


def rank(candidates: Sequence[Candidate], relevance: Relevance, catalogue_size: int) -> tuple[Ranked, ...]:
    """The candidates, best first; their ids must be distinct.

    `catalogue_size` is the number of tools that the store counts IDF over.
    """
    idf = compute_rarest_idf(catalogue_size)
    scored = [(relevance.compute_evidence(c.cosine, (c.bm25 or 0.0) / idf), c) for c in candidates]
    scored.sort(key=lambda pair: (-pair[0], -_or_least(pair[1].cosine), pair[1].id))
    dense = _ranks([(-c.cosine, c.id) for c in candidates if c.cosine is not None])
    lexical = _ranks([(-c.bm25, c.id) for c in candidates if c.bm25 is not None])
    return tuple(
        Ranked(found.id, evidence, found.cosine, found.bm25, dense.get(found.id), lexical.get(found.id))
        for evidence, found in scored
    )


def spread(pool: Sequence[Ranked], weights: Mapping[str, Weights]) -> Iterator[Ranked]:
    """The pool, which comes best first, in the order in which each repeats those above it as little as it can.

    `weights` has those of every point of the pool. Evidence never rises from one to the next.
    """
    likeness = _likeness([weights[it.id] for it in pool])
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
            if lowered < evidence[place]:  # the likest of those above counts
                evidence[place] = lowered
                repeated[place] = best.id if likeness[at][place] >= NEAR_COPY else None


def _likeness(vectors: Sequence[Weights]) -> list[list[float]]:
    """Cosines of sparse vectors with one another; 0 for one that is empty."""
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


def _ranks(best_first: list[tuple[float, str]]) -> dict[str, int]:
    """Place of each id, from 1."""
    return {point: place for place, (_, point) in enumerate(sorted(best_first), start=1)}


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value
