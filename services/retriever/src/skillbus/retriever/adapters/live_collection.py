"""The live collection of a dataset, and its candidates for a query."""

import math
import time
from collections.abc import Collection, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from cachetools import LRUCache

from skillbus.retriever.domain.errors import StoreUnavailableError
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.vectors import (
    DENSE,
    LEXICAL,
    CollectionMissing,
    PayloadFields,
    VectorSearch,
    VectorStoreUnavailable,
    models,
)
from skillbus.vectors.datasets import Dataset, parse_fingerprint

_LIVE_FOR_S: Final = 1.0
"""Lifetime of a resolved alias. It is safe: the collection before a switch is kept."""
_SIZE_FOR_S: Final = 2.0
"""Lifetime of a project's size under writes: an exact count of 50,000 points takes a server 10 ms."""
_SIZES: Final = 1_024
_KEPT_TERMS: Final = 1_024
"""Points of the last hits whose terms are kept, some 3 kB each."""


class _Size(NamedTuple):
    """A number of points, and when it was counted."""

    points: int
    revision: int | None
    counted_at: float


class _Question(NamedTuple):
    """One query of a batch."""

    scores: dict[str, float]
    """Receives the score of each point that is found."""
    vector: list[float] | models.SparseValues | None
    """None: nothing is asked."""
    among: models.Filter
    limit: int


class _Matches(NamedTuple):
    """Points that match one query, with their scores."""

    query: EmbeddedQuery
    cosines: dict[str, float]
    bm25: dict[str, float]

    def ask_both_sides(self, filters: Sequence[models.Filter], count: int) -> list[_Question]:
        dense, words = self._list_vectors()
        nearest = [_Question(self.cosines, dense, among, count) for among in filters]
        return [*nearest, *(_Question(self.bm25, words, among, count) for among in filters)]

    def ask_the_other_side(self) -> list[_Question]:
        """Return the questions by which each side scores the other's points.

        Sentences score all points, and are not searched for: points near to one of them alone brought .001 of recall@5
        to requests for several tools, for a scan each.
        """
        dense, words = self._list_vectors()
        if dense is None:
            return []
        everyone = _among({**self.cosines, **self.bm25})
        return [
            _Question(self.bm25, words, *_among([point for point in self.cosines if point not in self.bm25])),
            _Question(self.cosines, dense, *_among([point for point in self.bm25 if point not in self.cosines])),
            *(_Question(self.cosines, list(part), *everyone) for part in self.query.parts),
        ]

    def _list_vectors(self) -> tuple[list[float] | None, models.SparseValues | None]:
        query = self.query
        words = models.SparseValues(indices=list(query.indices), values=list(query.values)) if query.indices else None
        return None if query.dense is None else list(query.dense), words


class LiveCollection:
    """The collection that a dataset's alias points at. Every method raises StoreUnavailableError."""

    def __init__(self, store: VectorSearch, dataset: Dataset) -> None:
        self._store = store
        self._alias = dataset.alias
        self._live: LiveIndex | None = None
        self._live_until = 0.0
        self._sizes: LRUCache[tuple[str, str | None], _Size] = LRUCache(_SIZES)
        """Sizes by collection and project, or of all projects."""
        self._terms: LRUCache[tuple[str, int | None, str], frozenset[int]] = LRUCache(_KEPT_TERMS)
        """Terms of points by collection, its revision, and point."""

    async def find_live_index(self) -> LiveIndex | None:
        """Return the index that is searched now; None while nothing was ever indexed."""
        if self._live is None or time.monotonic() >= self._live_until:
            with as_unavailable():
                collection = await self._store.resolve_alias(self._alias)
            items = 0 if collection is None else await self._count_points(collection, None, 0.0)
            self._live = None if collection is None else LiveIndex(collection, parse_fingerprint(collection), items)
            self._live_until = time.monotonic() + _LIVE_FOR_S
        return self._live

    async def count_project(self, live: LiveIndex, project: str) -> int:
        """Return the number of a project's points; it may be some seconds old."""
        return await self._count_points(live.collection, project, _SIZE_FOR_S)

    async def _count_points(self, collection: str, project: str | None, trusted_for_s: float) -> int:
        """Return the number of points at this revision of the collection, or `trusted_for_s` ago."""
        now, revision = time.monotonic(), self._store.get_revision(collection)
        known = self._sizes.get((collection, project))
        is_old = known is not None and now >= known.counted_at + trusted_for_s
        if known is None or (is_old and (revision is None or revision != known.revision)):
            condition = None if project is None else models.Filter(must=[has_any("project", (project,))])
            with as_unavailable():
                known = _Size(await self._store.count(collection, condition), revision, now)
            self._sizes[collection, project] = known
        return known.points

    async def load_terms(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, Container[int]]:
        """Return the indices of the terms that these points hold; points that are gone are left out."""
        revision = self._store.get_revision(live.collection)
        keys = {point: (live.collection, revision, point) for point in points}
        held = {} if revision is None else {point: kept for point in points if (kept := self._terms.get(keys[point]))}
        for record, words in await self._retrieve(live, [point for point in points if point not in held], False):
            held[record.id] = self._terms[keys[record.id]] = frozenset(words.indices)
        return held

    async def _count(self, live: LiveIndex, condition: models.Filter) -> int:
        with as_unavailable():
            return await self._store.count(live.collection, condition)

    async def _search(
        self, live: LiveIndex, query: EmbeddedQuery, filters: Sequence[models.Filter], count: int
    ) -> list[IndexCandidate]:
        """Return `count` candidates of each side for each of the filters."""
        (found,) = await self._search_each(live, (query,), filters, count)
        return found

    async def _search_each(
        self, live: LiveIndex, queries: Sequence[EmbeddedQuery], filters: Sequence[models.Filter], count: int
    ) -> list[list[IndexCandidate]]:
        """Return `count` candidates of each side for each of the queries and filters, in two batches.

        One batch is enough where the index has no more points. With a dense query each candidate has its best cosine of
        query and parts, except points without a dense vector: those were written while no model was available.
        """
        matches = [_Matches(query, {}, {}) for query in queries]
        await self._score(live, [one for it in matches for one in it.ask_both_sides(filters, count)])
        if count < live.items or any(query.parts for query in queries):
            await self._score(live, [one for it in matches for one in it.ask_the_other_side()])
        return [
            [IndexCandidate(point, it.cosines.get(point), it.bm25.get(point)) for point in {**it.cosines, **it.bm25}]
            for it in matches
        ]

    async def _score(self, live: LiveIndex, questions: Sequence[_Question]) -> None:
        """Ask the questions in one batch, and keep the highest score of each point."""
        asked = [(one, one.vector) for one in questions if one.vector is not None and one.limit]
        requests = [
            models.QueryRequest(
                query=vector,
                using=DENSE if isinstance(vector, list) else LEXICAL,
                filter=one.among,
                limit=one.limit,
            )
            for one, vector in asked
        ]
        with as_unavailable():
            answers = await self._store.query(live.collection, requests)
        for (one, _), hits in zip(asked, answers, strict=True):
            for hit in hits:
                one.scores[hit.id] = max(hit.score, one.scores.get(hit.id, -math.inf))

    async def _retrieve(
        self, live: LiveIndex, points: Sequence[str], payload: PayloadFields
    ) -> list[tuple[models.Record, models.SparseValues]]:
        """Return the points with their sparse vectors; points deleted since are left out."""
        if not points:
            return []
        with as_unavailable():
            records = await self._store.retrieve(live.collection, points, with_payload=payload, with_vectors=(LEXICAL,))
        found = list[tuple[models.Record, models.SparseValues]]()
        for record in records:
            words = (record.vector or {}).get(LEXICAL)
            if not isinstance(words, models.SparseValues):
                words = models.SparseValues(indices=[], values=[])
            found.append((record, words))
        return found


def has_any(key: str, values: Sequence[str]) -> models.FieldCondition:
    """Return the condition that a field has one of these values."""
    if len(values) == 1:
        return models.FieldCondition(key=key, match=models.MatchValue(value=values[0]))
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


@contextmanager
def as_unavailable() -> Generator[None]:
    """Translate the store's failures into an error of the domain."""
    try:
        yield
    except (VectorStoreUnavailable, CollectionMissing) as error:
        raise StoreUnavailableError(str(error)) from error


def _among(points: Collection[str]) -> tuple[models.Filter, int]:
    return models.Filter(must=[models.HasIdCondition(has_id=list(points))]), len(points)
