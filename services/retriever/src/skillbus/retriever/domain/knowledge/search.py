"""A search of the knowledge base in three stages: filter, likeness on both sides, and rank by context."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from skillbus.contracts.retriever.knowledge_search import KnowledgeSearchExplanation, SearchKnowledge
from skillbus.relevance.score import compute_probability
from skillbus.retriever.domain.knowledge.candidates import Gathered, KnowledgeCandidates, KnowledgeQuestion
from skillbus.retriever.domain.knowledge.finder import FoundKnowledge
from skillbus.retriever.domain.knowledge.hit import hit_of
from skillbus.retriever.domain.knowledge.ranking import KnowledgeRanking, RankedItem
from skillbus.retriever.domain.knowledge.weights import NEUTRAL, KnowledgeWeights
from skillbus.retriever.domain.stages import Stages
from skillbus.retriever.domain.threshold import least_evidence


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class KnowledgeLimits:
    """How a search is bounded, and what moves its hits."""

    candidates: int
    """Of each side, at least."""
    fits: float
    """Where a request names no threshold, nothing is found when the best item has a score below this: among 1,500 items
    or more. Among fewer it needs less, see `fitting`: where a few items are of one matter, hardly a word tells one from
    another, and those that answer score low."""
    weights: KnowledgeWeights = NEUTRAL


class KnowledgeSearch:
    """Finds the knowledge that fits; a `KnowledgeFinder`."""

    def __init__(
        self, candidates: KnowledgeCandidates, limits: KnowledgeLimits, clock: Callable[[], datetime] = _now
    ) -> None:
        self._candidates = candidates
        self._limits = limits
        self._clock = clock

    async def find(self, request: SearchKnowledge, at_most: int | None = None) -> FoundKnowledge:
        """As `KnowledgeFinder.find`."""
        stages, top_k = Stages(), at_most or request.top_k
        count, reach = max(self._limits.candidates, 2 * top_k), self._limits.weights.reach(request)
        question = KnowledgeQuestion(request, top_k, count, reach, self._clock())
        gathered = await self._candidates.gather(question, stages)
        ranked = self._rank(gathered)
        least = least_evidence(self._limits.fits, gathered.begun.indexed)
        fitting = _fitting(ranked, gathered, least)
        best = await self._candidates.whole(gathered, fitting[:top_k])
        held = await self._candidates.terms(gathered, (it.scored for it in best))
        query = gathered.begun.query
        terms = dict(zip(query.indices, query.terms, strict=True))
        hits = tuple(hit_of(it, request, terms, held.get(it.id, ())) for it in best)
        stages.end("rank", len(hits))
        explanation = _explanation(gathered, stages, ranked, len(fitting), least) if request.explain else None
        return FoundKnowledge(hits, query.model, query.dense is None, explanation)

    def _rank(self, gathered: Gathered) -> tuple[RankedItem, ...]:
        begun = gathered.begun
        question = begun.question
        return KnowledgeRanking(question.request, self._limits.weights, begun.relevance, question.now).rank(
            gathered.scored, gathered.others
        )


def _fitting(ranked: tuple[RankedItem, ...], gathered: Gathered, least: float) -> tuple[RankedItem, ...]:
    """Those above the threshold if the request has one; else all of them if the best is likely to fit.

    Without a dense vector whatever shares a word comes back, as degraded.
    """
    threshold = gathered.begun.question.request.threshold
    if threshold is not None:
        return tuple(it for it in ranked if it.score >= threshold)
    degraded = gathered.begun.query.dense is None
    return ranked if degraded or (ranked and ranked[0].log_odds >= least) else ()


def _explanation(
    gathered: Gathered, stages: Stages, ranked: tuple[RankedItem, ...], fitting: int, least: float
) -> KnowledgeSearchExplanation:
    begun = gathered.begun
    threshold = begun.question.request.threshold
    return KnowledgeSearchExplanation(
        stages=stages.told(),
        indexed=begun.indexed,
        threshold=compute_probability(least) if threshold is None else threshold,
        below_threshold=len(ranked) - fitting,
        not_shown=len(gathered.others),
        unindexed=sum(not it.indexed for it in gathered.scored),
        best_score=ranked[0].score if ranked else None,
        terms=tuple(begun.query.terms),
        projects=begun.projects,
    )
