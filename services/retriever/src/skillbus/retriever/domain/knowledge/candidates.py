"""What a search of the knowledge base has to rank: what may be shown of what the index finds, and what it lacks.

The index gives candidates; the record then says what of them may be shown, as it is now, and what the index lacks. An
item that came into the index, or changed there, in between the two questions is looked for there again.
"""

import asyncio
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.relevance.knowledge_score import KnowledgeRelevance, derive_knowledge_relevance, sum_own_weights
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.knowledge.lacking import held_terms, score_of
from skillbus.retriever.domain.knowledge.ports import (
    IndexedItem,
    ItemEmbedder,
    ItemVectors,
    KnowledgeIndex,
    KnowledgeRecord,
    Looked,
    WantedKnowledge,
)
from skillbus.retriever.domain.knowledge.ranking import RankedItem, ScoredItem
from skillbus.retriever.domain.query import EmbeddedQuery, QueryEmbedder
from skillbus.retriever.domain.stages import Stages
from skillbus.retriever.domain.tools.ranking import Candidate

Held = Mapping[str, Container[int]]
"""The indices of the terms that items hold, by id."""


@dataclass(frozen=True, slots=True)
class KnowledgeQuestion:
    """A search that begins now."""

    request: SearchKnowledge
    top_k: int
    count: int
    """How many candidates each side gives."""
    reach: float
    """How much nearer one item may be than another that comes before it: log-odds."""
    now: datetime


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known of a search before the candidates are."""

    question: KnowledgeQuestion
    live: LiveIndex | None
    """None while nothing was ever indexed."""
    query: EmbeddedQuery
    projects: tuple[Project, ...]
    """Whose items count."""

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
        asked = sum_own_weights(self.question.request.query, self.query.terms, self.query.values)
        return KnowledgeRelevance(derive_knowledge_relevance(self.query.relevance), asked, self.indexed)

    @property
    def wanted(self) -> WantedKnowledge:
        request = self.question.request
        at = (request.at or self.question.now).timestamp()
        return WantedKnowledge(request, self.projects, at, self.question.count)


class _Near(NamedTuple):
    candidate: Candidate
    evidence: float


@dataclass(frozen=True, slots=True)
class _Found:
    """What index and record say."""

    begun: Begun
    points: Mapping[str, _Near]
    """The candidates of the index, by the ids of their items, nearest first."""
    items: tuple[FoundItem, ...]
    """What may be shown of these, as far as they may be hits, and of what the index lacks."""
    held: Held


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is to rank."""

    begun: Begun
    scored: tuple[ScoredItem, ...]
    held: Held
    """Of those that the index lacks, and of those of the index that are likely to be hits."""
    others: tuple[Candidate, ...]
    """Candidates of the index that were not taken as it has them: they may not be shown, have changed, or are too far
    from the query to be hits."""


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
        found = await self._find(begun, stages)
        begun = found.begun
        indexed = await self._as_indexed(found)
        lacking = await self._whole(question.request, [one for one in found.items if one.item.id not in indexed])
        vectors = await self._items.embed([one.item for one in lacking], begun.fingerprint) if lacking else {}
        return Gathered(
            begun=begun,
            scored=(*indexed.values(), *_as_recorded(lacking, vectors, begun)),
            held={**found.held, **{it.item.id: held_terms(begun.query, vectors[it.item.digest]) for it in lacking}},
            others=tuple(near.candidate for item, near in found.points.items() if item not in indexed),
        )

    async def whole(self, gathered: Gathered, items: Sequence[RankedItem]) -> tuple[RankedItem, ...]:
        """These with their content, of whichever it is not known yet; what may not be shown any more is left out."""
        told = await self._whole(gathered.begun.question.request, [it.scored.found for it in items])
        now = {one.item.id: one for one in told}
        return tuple(replace(it, scored=replace(it.scored, found=now[it.id])) for it in items if it.id in now)

    async def terms(self, gathered: Gathered, items: Iterable[ScoredItem]) -> Held:
        """The terms of these items, of whichever they are not known yet."""
        left = [it.found.item.id for it in items if it.indexed and it.found.item.id not in gathered.held]
        return {**gathered.held, **await self._terms(gathered.begun, left)}

    async def _begin(self, question: KnowledgeQuestion) -> Begun:
        live = await self._index.live()
        fingerprint = live.fingerprint if live else None
        query, projects = await asyncio.gather(
            self._embedder.embed(question.request.query, (), fingerprint), self._record.projects(question.request)
        )
        return Begun(question, live, query, projects)

    async def _find(self, begun: Begun, stages: Stages) -> _Found:
        """Again where other projects count than was thought."""
        while True:
            looked_at = time.monotonic()
            points = await self._points(begun)
            stages.end("candidates", len(points))
            looked = Looked(_within_reach(begun.question, points, points), _whole(begun.question), looked_at)
            matched, held = await asyncio.gather(
                self._record.matched(begun.question.request, looked), self._likely_terms(begun, points)
            )
            if matched.projects == begun.projects:
                items = await self._all_within_reach(begun.question, points, looked, matched.items)
                stages.end("record", len(items))
                return _Found(begun, points, items, held)
            stages.end("record", len(matched.items))
            begun = replace(begun, projects=matched.projects)

    async def _all_within_reach(
        self,
        question: KnowledgeQuestion,
        points: Mapping[str, _Near],
        looked: Looked,
        items: tuple[FoundItem, ...],
    ) -> tuple[FoundItem, ...]:
        """With those that come within reach as nearer ones may not be shown."""
        shown = {one.item.id for one in items if _is_known(one, points)}
        within = _within_reach(question, points, {item: near for item, near in points.items() if item in shown})
        known = {*looked.items, *(one.item.id for one in items)}
        left = tuple(item for item in within if item not in known)
        if not left:
            return items
        others = await self._record.matched(question.request, replace(looked, items=left))
        return (*items, *(one for one in others.items if one.item.id in left))

    async def _whole(self, request: SearchKnowledge, items: Sequence[FoundItem]) -> list[FoundItem]:
        left = [one.item.id for one in items if one.content_left]
        now = {one.item.id: one for one in await self._record.shown(request, left)} if left else {}
        told = (now.get(one.item.id) if one.content_left else one for one in items)
        return [one for one in told if one is not None]

    async def _points(self, begun: Begun) -> dict[str, _Near]:
        if begun.live is None:
            return {}
        found = await self._index.candidates(begun.live, begun.query, begun.wanted)
        relevance = begun.relevance
        nearest = [_Near(one, relevance.compute_evidence(one.cosine, one.bm25)) for one in found]
        nearest.sort(key=lambda near: near.evidence, reverse=True)
        return {near.candidate.id: near for near in nearest}

    async def _as_indexed(self, found: _Found) -> dict[str, ScoredItem]:
        """Those that the index has as the record has them, by id, scored by the index."""
        known = {
            one.item.id: found.points[one.item.id].candidate for one in found.items if _is_known(one, found.points)
        }
        doubtful = [one for one in found.items if one.item.id not in known and _may_be_known(one, found.points)]
        now = await self._again(found.begun, [one.item.id for one in doubtful])
        for one in doubtful:
            point = now.get(one.item.id)
            if point is not None and point.version == one.item.version:
                known[one.item.id] = point.candidate
        shown = {one.item.id: one for one in found.items}
        return {
            item: ScoredItem(shown[item], candidate.cosine, candidate.bm25, indexed=True)
            for item, candidate in known.items()
        }

    async def _again(self, begun: Begun, items: Sequence[str]) -> Mapping[str, IndexedItem]:
        return await self._index.again(begun.live, begun.query, items) if begun.live and items else {}

    async def _likely_terms(self, begun: Begun, points: Mapping[str, _Near]) -> Held:
        """Those of twice as many as there may be hits, the nearest ones: it is not known yet what moves them."""
        with_words = [item for item, near in points.items() if near.candidate.bm25 is not None]
        return await self._terms(begun, with_words[: _likely(begun.question)])

    async def _terms(self, begun: Begun, items: Sequence[str]) -> Held:
        return await self._index.terms(begun.live, items) if begun.live and items else {}


def _within_reach(
    question: KnowledgeQuestion, points: Mapping[str, _Near], shown: Mapping[str, _Near]
) -> tuple[str, ...]:
    """Of the points, nearest first, those that may be hits if these are shown, which are in that order too.

    Whatever moves it, an item that is further from the last of as many as there may be hits than any factors reach
    comes after all of them: half of the candidates do, and the record need not be asked about them.
    """
    if question.request.explain or len(shown) < question.top_k:
        return tuple(points)
    last = next(islice(shown.values(), question.top_k - 1, None)).evidence
    return tuple(item for item, near in points.items() if near.evidence >= last - question.reach)


def _likely(question: KnowledgeQuestion) -> int:
    """How many of the nearest are likely to have all hits among them."""
    return 2 * question.top_k


def _whole(question: KnowledgeQuestion) -> int:
    """Of how many of the nearest the content is asked for. A scope moves items further than anything else does."""
    return _likely(question) if question.request.scope is None else 2 * question.count


def _is_known(found: FoundItem, points: Container[str]) -> bool:
    """Whether the index had it among the candidates as it is now."""
    return found.item.id in points and found.indexed_version == found.item.version and not found.lately


def _may_be_known(found: FoundItem, points: Container[str]) -> bool:
    """Whether the index may have it as it is now: it was not told yet, or told in between."""
    return found.item.id in points or found.lately


def _as_recorded(lacking: Iterable[FoundItem], vectors: Mapping[str, ItemVectors], begun: Begun) -> list[ScoredItem]:
    """Scored by the text of the record."""
    return [score_of(found, vectors[found.item.digest], begun.query, begun.indexed) for found in lacking]
