"""What both sides of a search found → one order, best first.

The order is total: evidence, then cosine, both descending, then id. Scores therefore come in descending order, and the
order of the candidates makes no difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skillbus.retriever.domain.relevance import Relevance, probability, rarest_idf


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that one side of the search found, or both."""

    id: str
    cosine: float | None = None
    """Also of a point that only the lexical side found; None when no dense vector could be had."""
    bm25: float | None = None
    """None where the lexical side did not find the point."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place."""

    id: str
    score: float
    cosine: float | None
    bm25: float | None
    dense_rank: int | None
    """Its place on the dense side, from 1; None where that side did not find it. So is `lexical_rank`."""
    lexical_rank: int | None


def rank(
    candidates: Sequence[Candidate], relevance: Relevance, catalogue_size: int, threshold: float = 0.0
) -> tuple[Ranked, ...]:
    """The candidates with a score of `threshold` or more, best first; their ids must be distinct.

    `catalogue_size` is the number of tools that the store counts IDF over.
    """
    idf = rarest_idf(catalogue_size)
    scored = [(relevance.evidence(c.cosine, (c.bm25 or 0.0) / idf), c) for c in candidates]
    scored.sort(key=lambda pair: (-pair[0], -_or_least(pair[1].cosine), pair[1].id))
    dense = _ranks([(-c.cosine, c.id) for c in candidates if c.cosine is not None])
    lexical = _ranks([(-c.bm25, c.id) for c in candidates if c.bm25 is not None])
    ranked: list[Ranked] = []
    for evidence, found in scored:
        score = probability(evidence)
        if score < threshold:
            break
        place = Ranked(found.id, score, found.cosine, found.bm25, dense.get(found.id), lexical.get(found.id))
        ranked.append(place)
    return tuple(ranked)


def _ranks(best_first: list[tuple[float, str]]) -> dict[str, int]:
    """Place of each id, from 1."""
    return {point: place for place, (_, point) in enumerate(sorted(best_first), start=1)}


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value
