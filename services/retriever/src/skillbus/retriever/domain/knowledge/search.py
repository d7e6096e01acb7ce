"""Search of the knowledge base: candidates from the index, one request to the record, then ranking (ADR 0016, 0022)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from skillbus.contracts.learner.index import KnowledgeMatched
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import KnowledgeSearchExplanation, SearchKnowledge
from skillbus.contracts.retriever.search_explanation import ScoreParts
from skillbus.relevance.knowledge_evidence import KnowledgeRelevance, derive_knowledge_relevance, sum_own_weights
from skillbus.relevance.score import compute_least_evidence, compute_probability
from skillbus.retriever.domain.explanation import StageTimer, group_drops, make_score_parts
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex, QueryEmbedder, keep_side
from skillbus.retriever.domain.knowledge.explanation import KnowledgeDrops
from skillbus.retriever.domain.knowledge.hit import make_hit
from skillbus.retriever.domain.knowledge.ports import (
    FoundKnowledge,
    KnowledgeIndex,
    KnowledgeVisibility,
    WantedKnowledge,
)
from skillbus.retriever.domain.knowledge.ranking import KnowledgeRanking, RankedItem
from skillbus.retriever.domain.knowledge.score_factors import NEUTRAL, KnowledgeWeights


@dataclass(frozen=True, slots=True)
class KnowledgeLimits:
    """Bounds of a search, and the weights of its factors."""

    candidates: int
    """Candidates of each side, at least."""
    fits: float
    """Without a threshold, nothing is found when the best of 1,500 items or more scores below this. Among fewer items a
    lower score is enough (`compute_least_evidence`): few words distinguish them, and items that answer score low."""
    weights: KnowledgeWeights = NEUTRAL


@dataclass(frozen=True, slots=True)
class KnowledgeSearch:
    """Finds the knowledge that fits; a `KnowledgeFinder`."""

    embedder: QueryEmbedder
    index: KnowledgeIndex
    record: KnowledgeVisibility
    limits: KnowledgeLimits
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def search_knowledge(self, request: SearchKnowledge, at_most: int | None = None) -> FoundKnowledge:
        """See `KnowledgeFinder.search_knowledge`."""
        timer, now, top_k = StageTimer(), self.clock(), at_most or request.top_k
        live = await self.index.find_live_index()
        if live is None:
            matched = await self.record.confirm_candidates(request, ())
            return FoundKnowledge(index_behind=matched.index_behind)
        embedded = await self.embedder.embed_query(request.query, (), live.fingerprint)
        query = keep_side(embedded, request.side)
        timer.end_stage("embed", 0)
        candidates, record = await self._match(live, query, request, max(self.limits.candidates, 2 * top_k), now, timer)

        asked = sum_own_weights(request.query, query.terms, query.values)
        relevance = KnowledgeRelevance(derive_knowledge_relevance(query.relevance), asked, live.items)
        ranking = KnowledgeRanking(request, self.limits.weights, relevance, now)
        ranked = ranking.rank_items(record.items, candidates)
        least = compute_least_evidence(self.limits.fits, live.items)
        fitting = _select_fitting(ranked, request, least, degraded=query.dense is None)

        best = fitting[:top_k]
        held = await self.index.load_terms(live, [it.id for it in best if it.candidate.bm25 is not None])
        terms = dict(zip(query.indices, query.terms, strict=True))
        hits = tuple(
            make_hit(it, request, terms, held.get(it.id, ()), _split_score(it, relevance) if request.explain else None)
            for it in best
        )
        timer.end_stage("rank", len(hits))

        explanation = None
        if request.explain:
            stages = timer.list_stages()
            passing = [stage.candidates for stage in stages if stage.name == "filter"][-1]
            drops = KnowledgeDrops(candidates, record.items, ranked, fitting, top_k, relevance)
            explanation = KnowledgeSearchExplanation(
                stages=stages,
                indexed=live.items,
                threshold=compute_probability(least) if request.threshold is None else request.threshold,
                below_threshold=len(ranked) - len(fitting),
                not_shown=len(candidates) - len(record.items),
                best_score=max((it.score for it in ranked), default=None),
                terms=tuple(query.terms),
                projects=record.projects,
                other_scopes=await self._count_other_scopes(live, request, record.projects, now, passing),
                dropped=group_drops(drops.group()),
            )
        return FoundKnowledge(hits, query.model, embedded.dense is None, record.index_behind, explanation)

    async def _count_other_scopes(
        self, live: LiveIndex, request: SearchKnowledge, projects: tuple[Project, ...], now: datetime, passing: int
    ) -> int:
        """Return the number of items that pass all filters but the scope."""
        if request.scope is None:
            return 0
        anywhere = request.model_copy(update={"scope": None})
        wanted = WantedKnowledge(anywhere, projects, (request.at or now).timestamp(), 0)
        return max(0, await self.index.count_matching(live, wanted) - passing)

    async def _match(
        self,
        live: LiveIndex,
        query: EmbeddedQuery,
        request: SearchKnowledge,
        count: int,
        now: datetime,
        timer: StageTimer,
    ) -> tuple[Mapping[str, IndexCandidate], KnowledgeMatched]:
        """Return the index's candidates by id and the record's answer about them.

        Asks both again if the effective projects are not those that were assumed.
        """
        projects = self.record.recall_projects(request)
        while True:
            wanted = WantedKnowledge(request, projects, (request.at or now).timestamp(), count)
            if request.explain:
                timer.end_stage("filter", await self.index.count_matching(live, wanted))
            candidates = {one.id: one for one in await self.index.find_candidates(live, query, wanted)}
            timer.end_stage("candidates", len(candidates))
            record = await self.record.confirm_candidates(request, tuple(candidates))
            timer.end_stage("record", len(record.items))
            if record.projects == projects:
                return candidates, record
            projects = record.projects


def _split_score(it: RankedItem, relevance: KnowledgeRelevance) -> ScoreParts:
    return make_score_parts(relevance.split_evidence(it.candidate.cosine, it.candidate.bm25))


def _select_fitting(
    ranked: tuple[RankedItem, ...], request: SearchKnowledge, least: float, *, degraded: bool
) -> tuple[RankedItem, ...]:
    """Return the items above the request's threshold; without one, all items if the best is likely to fit.

    With a scope, every item must be likely to fit: the nearest scope comes first, and an item that is hopeless takes no
    place from one of a farther scope. Without a dense vector every item that shares a word is returned, as degraded.
    """
    if request.threshold is not None:
        return tuple(it for it in ranked if it.score >= request.threshold)
    if degraded:
        return ranked
    if request.scope is not None:
        return tuple(it for it in ranked if it.log_odds >= least)
    return ranked if ranked and ranked[0].log_odds >= least else ()
