"""What a search of the knowledge base has to rank: what may be shown of what the index finds, and what it lacks.

The index gives candidates; the record says what of them may be shown, as it is now. What the index lacks is asked for
before the candidates are: an item that is written into it meanwhile is among these, or those, or both.
"""

import asyncio
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from skillbus.contracts.knowledge_index import FoundItem, KnowledgeMatched
from skillbus.contracts.knowledge_search import SearchKnowledge
from skillbus.retriever.domain.knowledge_ports import (
    IndexedItem,
    ItemEmbedder,
    ItemVectors,
    KnowledgeIndex,
    KnowledgeRecord,
    WantedKnowledge,
)
from skillbus.retriever.domain.knowledge_ranking import ScoredItem
from skillbus.retriever.domain.knowledge_relevance import KnowledgeRelevance, for_knowledge, own_weight
from skillbus.retriever.domain.lacking import held_terms, score_of
from skillbus.retriever.domain.live_index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery, QueryEmbedder
from skillbus.retriever.domain.stages import Stages

Held = Mapping[str, Container[int]]
"""The indices of the terms that items hold, by id."""


@dataclass(frozen=True, slots=True)
class KnowledgeQuestion:
    """A search that begins now."""

    request: SearchKnowledge
    top_k: int
    count: int
    """How many candidates each side gives."""
    now: datetime


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known of a search before the candidates are."""

    question: KnowledgeQuestion
    live: LiveIndex | None
    """None while nothing was ever indexed."""
    query: EmbeddedQuery
    lacking: KnowledgeMatched

    @property
    def indexed(self) -> int:
        """Points that the store counts IDF over."""
        return self.live.items if self.live else 0

    @property
    def fingerprint(self) -> str | None:
        """Of the model whose vectors the query is compared with."""
        return self.query.fingerprint if self.query.dense is not None else None

    @property
    def relevance(self) -> KnowledgeRelevance:
        """How well items answer the query."""
        asked = own_weight(self.question.request.query, self.query.terms, self.query.values)
        return KnowledgeRelevance(for_knowledge(self.query.relevance), asked, self.indexed)

    @property
    def wanted(self) -> WantedKnowledge:
        request = self.question.request
        at = (request.at or self.question.now).timestamp()
        return WantedKnowledge(request, self.lacking.projects, at, self.question.count)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is to rank."""

    begun: Begun
    scored: tuple[ScoredItem, ...]
    held: Held
    """Of those that the index lacks, and of those of the index that are likely to be hits."""
    not_shown: int
    """Candidates of the index that were not taken as it has them."""


class KnowledgeCandidates:
    """Gathers what is ranked."""

    def __init__(
        self, embedder: QueryEmbedder, index: KnowledgeIndex, record: KnowledgeRecord, items: ItemEmbedder
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._record = record
        self._items = items

    async def gather(self, question: KnowledgeQuestion, stages: Stages) -> Gathered:
        """Candidates and what the index lacks, scored. Raises as `KnowledgeFinder.find`."""
        begun = await self._begin(question)
        stages.end("embed", 0)
        if question.request.explain:
            stages.end("filter", await self._index.passing(begun.live, begun.wanted) if begun.live else 0)
        lacking = begun.lacking.items
        points, vectors = await asyncio.gather(self._points(begun), self._vectors(begun, lacking))
        stages.end("candidates", len(points))
        ids = dict.fromkeys((*points, *(found.item.id for found in lacking)))
        shown, held = await asyncio.gather(
            self._record.shown(question.request, tuple(ids)), self._likely_terms(begun, points)
        )
        stages.end("record", len(shown))
        stale = [found for found in shown if not _is_as_indexed(found, points)]
        unknown = [found for found in stale if found.item.digest not in vectors]
        vectors = {**vectors, **await self._vectors(begun, unknown)}
        return Gathered(
            begun=begun,
            scored=(*_as_indexed(shown, points), *_as_recorded(stale, vectors, begun)),
            held={**held, **{it.item.id: held_terms(begun.query, vectors[it.item.digest]) for it in stale}},
            not_shown=len(points) - (len(shown) - len(stale)),
        )

    async def terms(self, gathered: Gathered, items: Iterable[ScoredItem]) -> Held:
        """The terms of these items, of whichever they are not known yet."""
        points = {it.point: it.found.item.id for it in items if it.point and it.found.item.id not in gathered.held}
        return {**gathered.held, **await self._terms(gathered.begun, points)}

    async def _begin(self, question: KnowledgeQuestion) -> Begun:
        live = await self._index.live()
        fingerprint = live.fingerprint if live else None
        query, lacking = await asyncio.gather(
            self._embedder.embed(question.request.query, (), fingerprint), self._record.lacking(question.request)
        )
        return Begun(question, live, query, lacking)

    async def _points(self, begun: Begun) -> Mapping[str, IndexedItem]:
        """The candidates of the index, by the ids of their items."""
        if begun.live is None:
            return {}
        found = await self._index.candidates(begun.live, begun.query, begun.wanted)
        return {one.item_id: one for one in found}

    async def _vectors(self, begun: Begun, items: Sequence[FoundItem]) -> Mapping[str, ItemVectors]:
        """By digest."""
        return await self._items.embed([found.item for found in items], begun.fingerprint) if items else {}

    async def _likely_terms(self, begun: Begun, points: Mapping[str, IndexedItem]) -> Held:
        """Those of twice as many as there may be hits, the nearest ones: it is not known yet what moves them."""
        relevance = begun.relevance
        with_words = [one for one in points.values() if one.candidate.bm25 is not None]
        nearest = sorted(
            with_words,
            key=lambda it: relevance.evidence(it.candidate.cosine, it.candidate.bm25),
            reverse=True,
        )
        return await self._terms(begun, {one.candidate.id: one.item_id for one in nearest[: 2 * begun.question.top_k]})

    async def _terms(self, begun: Begun, points: Mapping[str, str]) -> Held:
        """By item, of the items at these points."""
        if begun.live is None or not points:
            return {}
        held = await self._index.terms(begun.live, tuple(points))
        return {points[point]: terms for point, terms in held.items()}


def _is_as_indexed(found: FoundItem, points: Mapping[str, IndexedItem]) -> bool:
    point = points.get(found.item.id)
    return point is not None and point.version == found.item.version


def _as_indexed(shown: Collection[FoundItem], points: Mapping[str, IndexedItem]) -> list[ScoredItem]:
    """Scored by the index."""
    fresh = [(found, points[found.item.id].candidate) for found in shown if _is_as_indexed(found, points)]
    return [ScoredItem(found, near.cosine, near.bm25, near.id) for found, near in fresh]


def _as_recorded(stale: Iterable[FoundItem], vectors: Mapping[str, ItemVectors], begun: Begun) -> list[ScoredItem]:
    """Scored by the text of the record."""
    return [score_of(found, vectors[found.item.digest], begun.query, begun.indexed) for found in stale]
