"""Items that may be shown → one order, best first.

    score = 1 / (1 + e^-(evidence + factors))

Evidence is that of `knowledge_relevance`; factors are those of `knowledge_weights`. The
order is total: evidence with its factors, then cosine, both descending, then id. So the order of what was found makes
no difference, and the same request of the same knowledge has the same answer.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.retriever.knowledge_search import ScoreFactors, SearchKnowledge
from skillbus.contracts.scope import ScopeMatch, match_scope
from skillbus.relevance.knowledge_score import KnowledgeRelevance
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.knowledge.weights import KnowledgeWeights
from skillbus.retriever.domain.tools.ranking import Candidate


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
    factors: ScoreFactors
    scope_match: ScopeMatch | None
    dense_rank: int | None
    """Its place by cosine among all candidates, from 1; None without one. So is `lexical_rank` by BM25."""
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
        return compute_probability(self.log_odds)


@dataclass(frozen=True, slots=True)
class KnowledgeRanking:
    """Ranks what one request found."""

    request: SearchKnowledge
    weights: KnowledgeWeights
    relevance: KnowledgeRelevance
    now: datetime

    def rank(self, scored: Sequence[ScoredItem], others: Sequence[Candidate] = ()) -> tuple[RankedItem, ...]:
        """The items, best first, whose ids must be distinct. They have their places among the others too.

        What says nothing about the scope that is asked for is left out, and what shares no word with the query where
        there are only words to go by.
        """
        telling = [(one, near) for one in scored for near in self._matches(one) if _says_something(one)]
        dense = _Places.of((one.cosine for one in scored), (one.cosine for one in others))
        lexical = _Places.of((one.bm25 for one in scored), (one.bm25 for one in others))
        ranked = [
            RankedItem(
                scored=one,
                evidence=self.relevance.compute_evidence(one.cosine, one.bm25),
                factors=self._factors(one.found, near),
                scope_match=near,
                dense_rank=dense.place(one.cosine),
                lexical_rank=lexical.place(one.bm25),
            )
            for one, near in telling
        ]
        return tuple(sorted(ranked, key=lambda it: (-it.log_odds, -_or_least(it.scored.cosine), it.id)))

    def _factors(self, found: FoundItem, near: ScopeMatch | None) -> ScoreFactors:
        request = self.request
        return self.weights.factors(found, near, self.now, query=request.query, feedback=request.feedback)

    def _matches(self, one: ScoredItem) -> tuple[ScopeMatch | None, ...]:
        """How its scope lies to the one asked for; nothing where it says nothing about it."""
        if self.request.scope is None:
            return (None,)
        near = match_scope(one.found.item.scope, self.request.scope)
        return (near,) if near else ()


def _says_something(one: ScoredItem) -> bool:
    return one.cosine is not None or one.bm25 is not None


@dataclass(frozen=True, slots=True)
class _Places:
    """The candidates of a side in their order."""

    negated: list[float]

    @classmethod
    def of(cls, *values: Iterable[float | None]) -> "_Places":
        return cls(sorted(-value for value in chain(*values) if value is not None))

    def place(self, value: float | None) -> int | None:
        """From 1; of equal ones it is the same."""
        return None if value is None else bisect_left(self.negated, -value) + 1


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value
