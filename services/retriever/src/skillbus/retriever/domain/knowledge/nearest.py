"""Neighbours of texts in the index of knowledge."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from skillbus.contracts.learner.index import KnowledgeFilter
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.nearest_knowledge import (
    FindNearestKnowledge,
    KnowledgeNeighbour,
    NearestKnowledgeFound,
    NearestText,
)
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex, QueryEmbedder
from skillbus.retriever.domain.knowledge.ports import KnowledgeIndex, WantedKnowledge


@dataclass(frozen=True, slots=True)
class NearestKnowledge:
    """Finds neighbours without asking the record: learning, which keeps the record, is the caller."""

    embedder: QueryEmbedder
    index: KnowledgeIndex
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def find_nearest(self, request: FindNearestKnowledge) -> NearestKnowledgeFound:
        live = await self.index.find_live_index()
        if live is None:
            return NearestKnowledgeFound(neighbours=((),) * len(request.texts))
        neighbours, query = list[tuple[KnowledgeNeighbour, ...]](), None
        for wanted in request.texts:
            query = await self.embedder.embed_query(wanted.text, (), live.fingerprint)
            neighbours.append(await self._find(live, query, wanted, request.project, request.limit))
        model = query.model if query is not None else None
        return NearestKnowledgeFound(neighbours=tuple(neighbours), model=model)

    async def _find(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: NearestText, project: Project, limit: int
    ) -> tuple[KnowledgeNeighbour, ...]:
        filtered = KnowledgeFilter(project=project, scope=wanted.scope)
        conditions = WantedKnowledge(filtered, (project,), self.clock().timestamp(), limit)
        found = await self.index.find_candidates(live, query, conditions)
        nearest = sorted(found, key=_nearness, reverse=True)[:limit]
        return tuple(KnowledgeNeighbour(id=one.id, cosine=one.cosine) for one in nearest)


def _nearness(candidate: IndexCandidate) -> tuple[float, float, str]:
    """Order by cosine, then by words."""
    return (-1.0 if candidate.cosine is None else candidate.cosine, candidate.bm25 or 0.0, candidate.id)
