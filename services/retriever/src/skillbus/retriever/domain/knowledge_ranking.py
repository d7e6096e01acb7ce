"""Items that may be shown → one order, best first.

    score = 1 / (1 + e^-(evidence + factors))

Evidence is that of `knowledge_relevance`; factors are those of `knowledge_weights`. The
order is total: evidence with its factors, then cosine, both descending, then id. So the order of what was found makes
no difference, and the same request of the same knowledge has the same answer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from skillbus.contracts.knowledge_index import FoundItem
from skillbus.contracts.knowledge_search import Factors, SearchKnowledge
from skillbus.contracts.scope import ScopeMatch, match
from skillbus.retriever.domain.knowledge_relevance import KnowledgeRelevance
from skillbus.retriever.domain.knowledge_weights import KnowledgeWeights
from skillbus.retriever.domain.relevance import probability


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """An item that may be shown, and how like it is to the query."""

    found: FoundItem
    cosine: float | None
    """None where no dense vector could be had, of the query or of the item."""
    bm25: float | None
    """None where they share no word."""
    indexed: bool
    """Whether vectors of the index were compared; else they were made of the record's text."""


@dataclass(frozen=True, slots=True)
class RankedItem:
    """An item in its place."""

    scored: ScoredItem
    evidence: float
    """Log-odds of fitting, without the factors."""
    factors: Factors
    scope_match: ScopeMatch | None
    dense_rank: int | None
    """Its place by cosine, from 1; None without one. So is `lexical_rank` by BM25."""
    lexical_rank: int | None

    @property
    def id(self) -> str:
        return self.scored.found.item.id

    @property
    def log_odds(self) -> float:
        """What it is ordered by."""
        moved = self.factors
        return self.evidence + moved.scope + moved.tag + moved.priority + moved.freshness + moved.feedback

    @property
    def score(self) -> float:
        """From 0 to 1."""
        return probability(self.log_odds)


@dataclass(frozen=True, slots=True)
class KnowledgeRanking:
    """Ranks what one request found."""

    request: SearchKnowledge
    weights: KnowledgeWeights
    relevance: KnowledgeRelevance
    now: datetime

    def rank(self, scored: Sequence[ScoredItem]) -> tuple[RankedItem, ...]:
        """The items, best first, whose ids must be distinct.

        What says nothing about the scope that is asked for is left out, and what shares no word with the query where
        there are only words to go by.
        """
        telling = [(one, near) for one in scored for near in self._matches(one) if _says_something(one)]
        dense = _ranks((one.cosine, one) for one, _ in telling)
        lexical = _ranks((one.bm25, one) for one, _ in telling)
        ranked = [
            RankedItem(
                scored=one,
                evidence=self.relevance.evidence(one.cosine, one.bm25),
                factors=self._factors(one.found, near),
                scope_match=near,
                dense_rank=dense.get(one.found.item.id),
                lexical_rank=lexical.get(one.found.item.id),
            )
            for one, near in telling
        ]
        return tuple(sorted(ranked, key=lambda it: (-it.log_odds, -_or_least(it.scored.cosine), it.id)))

    def _factors(self, found: FoundItem, near: ScopeMatch | None) -> Factors:
        request = self.request
        return self.weights.factors(found, near, self.now, query=request.query, feedback=request.feedback)

    def _matches(self, one: ScoredItem) -> tuple[ScopeMatch | None, ...]:
        """How its scope lies to the one asked for; nothing where it says nothing about it."""
        if self.request.scope is None:
            return (None,)
        near = match(one.found.item.scope, self.request.scope)
        return (near,) if near else ()


def _says_something(one: ScoredItem) -> bool:
    return one.cosine is not None or one.bm25 is not None


def _ranks(values: Iterable[tuple[float | None, ScoredItem]]) -> dict[str, int]:
    """Place of each item that has a value, from 1."""
    best_first = sorted((-value, one.found.item.id) for value, one in values if value is not None)
    return {item: place for place, (_, item) in enumerate(best_first, start=1)}


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value
