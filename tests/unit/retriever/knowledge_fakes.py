"""An index that says what a test likes, an embedder, and the record in memory, around a search of knowledge."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from skillbus.contracts.learner.index import FindKnowledge, FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.knowledge.candidates import KnowledgeCandidates
from skillbus.retriever.domain.knowledge.finder import FoundKnowledge
from skillbus.retriever.domain.knowledge.ports import IndexedItem, ItemVectors, Looked, WantedKnowledge
from skillbus.retriever.domain.knowledge.search import KnowledgeLimits, KnowledgeSearch
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.ranking import Candidate

from ...knowledge_record import NOW, Record

LIVE = LiveIndex("knowledge-abc-v1", "abc", 100)
TERMS = ("header", "直播")


@dataclass
class FakeIndex:
    """Items and their versions; it filters nothing."""

    points: dict[str, IndexedItem] = field(default_factory=dict)
    index: LiveIndex | None = LIVE
    holding: dict[str, frozenset[int]] = field(default_factory=dict)
    """Indices of terms, by item."""
    wanted: list[WantedKnowledge] = field(default_factory=list)
    read: list[tuple[str, ...]] = field(default_factory=list)
    """Items whose terms were read."""
    meanwhile: list[KnowledgeItem] = field(default_factory=list)
    """What it gets after it gave candidates."""

    def put(self, item: KnowledgeItem, cosine: float | None = 0.8, bm25: float | None = None) -> None:
        self.points[item.id] = IndexedItem(Candidate(item.id, cosine, bm25), item.version)

    async def live(self) -> LiveIndex | None:
        return self.index

    async def passing(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        return len(self.points)

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge) -> Sequence[Candidate]:
        self.wanted.append(wanted)
        found = [one.candidate for one in self.points.values()]
        for item in self.meanwhile:
            self.put(item)
        return found

    async def again(self, live: LiveIndex, query: EmbeddedQuery, items: Sequence[str]) -> Mapping[str, IndexedItem]:
        return {item: self.points[item] for item in items if item in self.points}

    async def terms(self, live: LiveIndex, items: Sequence[str]) -> Mapping[str, Container[int]]:
        self.read.append(tuple(items))
        return {item: self.holding.get(item, frozenset()) for item in items}


@dataclass
class FakeQueries:
    """Embeds every query alike."""

    dense: tuple[float, ...] | None = (1.0, 0.0)
    fingerprints: list[str | None] = field(default_factory=list)

    async def embed(self, query: str, parts: tuple[str, ...], fingerprint: str | None) -> EmbeddedQuery:
        self.fingerprints.append(fingerprint)
        model = "model" if self.dense else None
        return EmbeddedQuery(self.dense, (1, 2), (1.0, 1.0), TERMS, model, NEUTRAL, (), fingerprint or "default")


@dataclass
class FakeItems:
    """Embeds items by their digests: each has a cosine, and the query's terms that it holds."""

    cosines: dict[str, float] = field(default_factory=dict)
    holding: dict[str, tuple[int, ...]] = field(default_factory=dict)
    late: bool = False
    """Whether the model is too busy for them."""
    asked: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)

    async def embed(self, items: Sequence[KnowledgeItem], fingerprint: str | None) -> Mapping[str, ItemVectors]:
        self.contents.extend(item.content for item in items)
        self.asked.append((tuple(item.digest for item in items), fingerprint))
        return {item.digest: self._vectors(item.digest, fingerprint) for item in items}

    def _vectors(self, digest: str, fingerprint: str | None) -> ItemVectors:
        cosine, held = self.cosines.get(digest, 0.5), self.holding.get(digest, ())
        dense = None if fingerprint is None or self.late else np.array([cosine, (1 - cosine**2) ** 0.5], np.float32)
        return ItemVectors(dense, np.array(held, np.uint32), np.ones(len(held), np.float32))


@dataclass
class FakeRecord:
    """The record as a `KnowledgeRecord`; a test may change it after the index gave candidates."""

    record: Record = field(default_factory=lambda: Record(now=lambda: NOW))
    meanwhile: list[KnowledgeItem] = field(default_factory=list)
    """Written before it is asked what may be shown; the index does not have it yet."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    supposed: tuple[str, ...] | None = None
    """The projects that it thinks count before it is asked; the right ones if absent."""

    async def projects(self, request: SearchKnowledge) -> tuple[str, ...]:
        return self.supposed or self.record.find(_asked(request)).projects

    async def matched(self, request: SearchKnowledge, looked: Looked) -> KnowledgeMatched:
        self.record.put(*self.meanwhile, indexed=False)
        self.asked.append(looked.items)
        asking = {"ids": looked.items, "whole": looked.whole, "candidates_age_s": 0.0}
        return self.record.find(_asked(request).model_copy(update=asking))

    async def shown(self, request: SearchKnowledge, ids: Sequence[str]) -> Sequence[FoundItem]:
        self.asked.append(tuple(ids))
        return self.record.find(_asked(request).model_copy(update={"ids": tuple(ids), "unindexed": 0})).items


def _asked(request: SearchKnowledge) -> FindKnowledge:
    return FindKnowledge.model_validate(request.model_dump(include=set(FindKnowledge.model_fields)))


@dataclass
class Base:
    """A knowledge base."""

    index: FakeIndex = field(default_factory=FakeIndex)
    record: FakeRecord = field(default_factory=FakeRecord)
    queries: FakeQueries = field(default_factory=FakeQueries)
    items: FakeItems = field(default_factory=FakeItems)
    now: datetime = NOW
    limits: KnowledgeLimits = field(default_factory=lambda: KnowledgeLimits(candidates=20, fits=0.02))

    def put(self, item: KnowledgeItem, cosine: float | None = 0.8, bm25: float | None = None) -> None:
        """An item that record and index have."""
        self.record.record.put(item)
        self.index.put(item, cosine, bm25)

    async def find(self, query: str = "直播 header", at_most: int | None = None, **more: object) -> FoundKnowledge:
        candidates = KnowledgeCandidates(self.queries, self.index, self.record, self.items)
        search = KnowledgeSearch(candidates, self.limits, clock=lambda: self.now)
        return await search.find(SearchKnowledge.model_validate({"query": query, **more}), at_most)

    async def ids(self, **more: object) -> list[str]:
        return [hit.item.id for hit in (await self.find(**more)).hits]  # type: ignore[arg-type]  # of the request
