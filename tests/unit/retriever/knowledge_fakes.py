"""An index that says what a test likes, an embedder, and the record in memory, around a knowledge search."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from skillbus.contracts.learner.index import FindKnowledge, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.retriever.domain.knowledge.ports import FoundKnowledge, WantedKnowledge
from skillbus.retriever.domain.knowledge.search import KnowledgeLimits, KnowledgeSearch

from ...knowledge_record import NOW, Record

LIVE = LiveIndex("knowledge-abc-v1", "abc", 100)
TERMS = ("header", "直播")


@dataclass
class FakeIndex:
    """Candidates by id; it filters nothing."""

    points: dict[str, IndexCandidate] = field(default_factory=dict)
    index: LiveIndex | None = LIVE
    holding: dict[str, frozenset[int]] = field(default_factory=dict)
    """Indices of terms, by item."""
    wanted: list[WantedKnowledge] = field(default_factory=list)
    read: list[tuple[str, ...]] = field(default_factory=list)
    """Items whose terms were read."""

    def put(self, item: KnowledgeItem, cosine: float | None = 0.8, bm25: float | None = None) -> None:
        self.points[item.id] = IndexCandidate(item.id, cosine, bm25)

    async def find_live_index(self) -> LiveIndex | None:
        return self.index

    async def count_matching(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        return len(self.points)

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge
    ) -> Sequence[IndexCandidate]:
        self.wanted.append(wanted)
        return list(self.points.values())

    async def load_terms(self, live: LiveIndex, items: Sequence[str]) -> Mapping[str, Container[int]]:
        self.read.append(tuple(items))
        return {item: self.holding.get(item, frozenset()) for item in items}


@dataclass
class FakeQueries:
    """Embeds every query alike."""

    dense: tuple[float, ...] | None = (1.0, 0.0)
    fingerprints: list[str] = field(default_factory=list)

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        self.fingerprints.append(fingerprint)
        model = "model" if self.dense else None
        return EmbeddedQuery(self.dense, (1, 2), (1.0, 1.0), TERMS, model, NEUTRAL, (), fingerprint)


@dataclass
class FakeRecord:
    """The record as a `KnowledgeVisibility`; a test may change it after the index gave candidates."""

    record: Record = field(default_factory=lambda: Record(now=lambda: NOW))
    meanwhile: list[KnowledgeItem] = field(default_factory=list)
    """Written before it is asked what may be shown; the index does not have it yet."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    recalled: tuple[str, ...] | None = None
    """Projects of its last reply; the right ones if absent."""

    def recall_projects(self, request: SearchKnowledge) -> tuple[str, ...]:
        return self.recalled or self.record.find(_asked(request)).projects

    async def confirm_candidates(self, request: SearchKnowledge, ids: Sequence[str]) -> KnowledgeMatched:
        self.record.put(*self.meanwhile, indexed=False)
        self.asked.append(tuple(ids))
        return self.record.find(_asked(request).model_copy(update={"ids": tuple(ids)}))


def _asked(request: SearchKnowledge) -> FindKnowledge:
    return FindKnowledge.model_validate(request.model_dump(include=set(FindKnowledge.model_fields)))


@dataclass
class Base:
    """A knowledge base."""

    index: FakeIndex = field(default_factory=FakeIndex)
    record: FakeRecord = field(default_factory=FakeRecord)
    queries: FakeQueries = field(default_factory=FakeQueries)
    now: datetime = NOW
    limits: KnowledgeLimits = field(default_factory=lambda: KnowledgeLimits(candidates=20, fits=0.02))

    def put(self, item: KnowledgeItem, cosine: float | None = 0.8, bm25: float | None = None) -> None:
        """An item that record and index have."""
        self.record.record.put(item)
        self.index.put(item, cosine, bm25)

    async def find(self, query: str = "直播 header", at_most: int | None = None, **more: object) -> FoundKnowledge:
        search = KnowledgeSearch(self.queries, self.index, self.record, self.limits, clock=lambda: self.now)
        return await search.search_knowledge(SearchKnowledge.model_validate({"query": query, **more}), at_most)

    async def ids(self, **more: object) -> list[str]:
        return [hit.item.id for hit in (await self.find(**more)).hits]  # type: ignore[arg-type]  # of the request
