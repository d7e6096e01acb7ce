"""Ranking of the items that the record lets be shown.

    score = 1 / (1 + e^-(evidence + factors))

The evidence comes from `relevance`, the factors from `weights`. With a scope, the level of its match comes first:
exact, within, pattern, parent, general. Inside a level the order is by score, then cosine, both descending, then id. So
it does not depend on the order of the candidates: the same request of the same knowledge has the same answer.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.retriever.knowledge_search import ScoreFactors, SearchKnowledge
from skillbus.contracts.scope import ScopeMatch, match_scope
from skillbus.relevance.knowledge_evidence import KnowledgeRelevance
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.knowledge.score_factors import KnowledgeWeights

_LEVELS: Final[dict[ScopeMatch | None, int]] = {near: level for level, near in enumerate(ScopeMatch)} | {None: 0}
"""Levels of scopes, the nearest first; a single one where no scope was asked for."""


@dataclass(frozen=True, slots=True)
class RankedItem:
    """An item in its place."""

    found: FoundItem
    candidate: IndexCandidate
    evidence: float
    """Log-odds of answering the query, without the factors."""
    factors: ScoreFactors
    scope_match: ScopeMatch | None
    dense_rank: int | None
    """Place by cosine among all candidates, from 1; None without a cosine."""
    lexical_rank: int | None
    """Place by BM25 among all candidates, from 1; None without a shared word."""

    @property
    def id(self) -> str:
        return self.found.item.id

    @property
    def indexed(self) -> bool:
        """False if the index has an older version: its similarity to the query counts until the index has this one."""
        return self.found.indexed_version >= self.found.item.version

    @property
    def log_odds(self) -> float:
        """Evidence and factors together."""
        moved = self.factors
        return self.evidence + moved.scope + moved.tag + moved.priority + moved.freshness + moved.feedback

    @property
    def score(self) -> float:
        """From 0 to 1."""
        return compute_probability(self.log_odds)


@dataclass(frozen=True, slots=True)
class KnowledgeRanking:
    """Ranks the items of one request."""

    request: SearchKnowledge
    weights: KnowledgeWeights
    relevance: KnowledgeRelevance
    now: datetime

    def rank_items(
        self, items: Sequence[FoundItem], candidates: Mapping[str, IndexCandidate]
    ) -> tuple[RankedItem, ...]:
        """Sort the items, best first. `candidates` holds all candidates of the index by id, these items' among them.

        Items that say nothing about the requested scope are left out, and items without cosine and shared word.
        """
        cosines = _sort_descending(one.cosine for one in candidates.values())
        bm25 = _sort_descending(one.bm25 for one in candidates.values())
        ranked = list[RankedItem]()
        for found in items:
            one, scope = candidates[found.item.id], self.request.scope
            near = None if scope is None else match_scope(found.item.scope, scope)
            if (near is None and scope is not None) or (one.cosine is None and one.bm25 is None):
                continue
            evidence = self.relevance.compute_evidence(one.cosine, one.bm25)
            factors = self.weights.compute_factors(self.request, found, near, self.now)
            places = _find_place(cosines, one.cosine), _find_place(bm25, one.bm25)
            ranked.append(RankedItem(found, one, evidence, factors, near, *places))
        return tuple(sorted(ranked, key=_order))


def _order(it: RankedItem) -> tuple[int, float, float, str]:
    cosine = it.candidate.cosine
    return _LEVELS[it.scope_match], -it.log_odds, math.inf if cosine is None else -cosine, it.id


def _sort_descending(values: Iterable[float | None]) -> list[float]:
    """Return the values that there are, negated, in ascending order."""
    return sorted(-value for value in values if value is not None)


def _find_place(negated: Sequence[float], value: float | None) -> int | None:
    """Return the place of a value, from 1; equal values share a place."""
    return None if value is None else bisect_left(negated, -value) + 1
