"""The collection behind an alias of the vector store, and what both sides of a search find in it."""

import math
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from qdrant_client import models

from skillbus.retriever.domain.errors import StoreUnavailableError
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.ranking import Candidate, Weights
from skillbus.vectors import DENSE, LEXICAL, CollectionMissing, PayloadFields, VectorSearch, VectorStoreUnavailable
from skillbus.vectors.datasets import Dataset, model_of

_LIVE_FOR_S: Final = 1.0
"""How long the alias is taken to point where it did: the collection before a switch is kept, so that this is safe."""
_SIZE_FOR_S: Final = 2.0
_SIZES: Final = 1_024


class _Asked(NamedTuple):
    """A question to the store."""

    scores: dict[str, float]
    """Where what it finds is put, by point."""
    vector: list[float] | models.SparseVector | None
    """Nothing is asked without one."""
    among: models.Filter
    limit: int


@dataclass(frozen=True, slots=True)
class _Size:
    points: int
    until: float
    """Of `time.monotonic`."""


class LiveCollection:
    """Reads what a dataset's alias points at. Every method raises StoreUnavailableError."""

    def __init__(self, store: VectorSearch, dataset: Dataset) -> None:
        self._store = store
        self._alias = dataset.alias
        self._live: LiveIndex | None = None
        self._live_until = 0.0
        self._sizes: dict[tuple[str, tuple[str, ...]], _Size] = {}

    async def live(self) -> LiveIndex | None:
        """What is searched now; None while nothing was ever indexed."""
        if self._live is None or time.monotonic() >= self._live_until:
            with as_unavailable():
                self._live = await self._resolve()
            self._live_until = time.monotonic() + _LIVE_FOR_S
        return self._live

    async def _resolve(self) -> LiveIndex | None:
        collection = await self._store.resolve_alias(self._alias)
        if collection is None:
            return None
        return LiveIndex(collection, model_of(collection), await self._store.count(collection))

    async def size(self, live: LiveIndex, projects: tuple[str, ...]) -> int:
        """How many points these projects have there; may be some seconds old."""
        key, now = (live.collection, projects), time.monotonic()
        known = self._sizes.get(key)
        if known is None or now >= known.until:
            count = await self.passing(live, models.Filter(must=[any_of("project", projects)]))
            if len(self._sizes) >= _SIZES:
                self._sizes.clear()
            self._sizes[key] = known = _Size(count, now + _SIZE_FOR_S)
        return known.points

    async def passing(self, live: LiveIndex, fitting: models.Filter) -> int:
        """How many points pass a filter."""
        with as_unavailable():
            return await self._store.count(live.collection, fitting)

    async def candidates(
        self, live: LiveIndex, query: EmbeddedQuery, fitting: models.Filter, count: int
    ) -> list[Candidate]:
        """`count` of each side; with a dense query each has a cosine, the best of request and parts.

        But for points without a dense vector, which were written while the model was away: they have their words alone.
        """
        cosines: dict[str, float] = {}
        bm25: dict[str, float] = {}
        dense, words = _sides(query)
        await self._score(live, [_Asked(cosines, dense, fitting, count), _Asked(bm25, words, fitting, count)])
        if dense is not None:
            await self._score(live, _missing(query, dense, words, cosines, bm25))
        return [Candidate(point, cosines.get(point), bm25.get(point)) for point in {**cosines, **bm25}]

    async def scored(self, live: LiveIndex, query: EmbeddedQuery, points: Sequence[str]) -> list[Candidate]:
        """How like these points are to the query; those that are gone meanwhile are to nothing."""
        cosines: dict[str, float] = {}
        bm25: dict[str, float] = {}
        dense, words = _sides(query)
        await self._score(live, [_Asked(cosines, dense, *_among(points)), _Asked(bm25, words, *_among(points))])
        return [Candidate(point, cosines.get(point), bm25.get(point)) for point in points]

    async def _score(self, live: LiveIndex, asked: Sequence[_Asked]) -> None:
        """Put what each question finds among its scores, if it is higher."""
        asked = [one for one in asked if one.vector is not None and one.limit]
        requests = [
            models.QueryRequest(
                query=one.vector,
                using=DENSE if isinstance(one.vector, list) else LEXICAL,
                filter=one.among,
                limit=one.limit,
            )
            for one in asked
        ]
        with as_unavailable():
            answers = await self._store.query(live.collection, requests)
        for one, hits in zip(asked, answers, strict=True):
            for hit in hits:
                one.scores[hit.id] = max(hit.score, one.scores.get(hit.id, -math.inf))

    async def retrieve(
        self, live: LiveIndex, points: Sequence[str], payload: PayloadFields, *, weights: bool = False
    ) -> list[models.Record]:
        """What is stored at these points; those that are gone meanwhile are left out."""
        with as_unavailable():
            return await self._store.retrieve(
                live.collection, points, with_payload=payload, with_vectors=(LEXICAL,) if weights else False
            )


def terms_of(record: models.Record) -> frozenset[int]:
    """The indices of the sparse vector of a point that was retrieved with it."""
    vector = record.vector.get(LEXICAL) if isinstance(record.vector, dict) else None
    return frozenset(vector.indices) if isinstance(vector, models.SparseVector) else frozenset()


def weights_of(record: models.Record) -> Weights:
    """The sparse vector of a point that was retrieved with it."""
    vector = record.vector.get(LEXICAL) if isinstance(record.vector, dict) else None
    return dict(zip(vector.indices, vector.values, strict=True)) if isinstance(vector, models.SparseVector) else {}


def any_of(key: str, values: Sequence[str]) -> models.FieldCondition:
    """Points that have one of these values."""
    if len(values) == 1:
        return models.FieldCondition(key=key, match=models.MatchValue(value=values[0]))
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


@contextmanager
def as_unavailable() -> Generator[None]:
    """The store's failures as errors of the domain."""
    try:
        yield
    except (VectorStoreUnavailable, CollectionMissing) as error:
        raise StoreUnavailableError(str(error)) from error


def _sides(query: EmbeddedQuery) -> tuple[list[float] | None, models.SparseVector | None]:
    """The vectors of a query, of whichever it has."""
    dense = None if query.dense is None else list(query.dense)
    words = models.SparseVector(indices=list(query.indices), values=list(query.values)) if query.indices else None
    return dense, words


def _missing(
    query: EmbeddedQuery,
    dense: list[float],
    words: models.SparseVector | None,
    cosines: dict[str, float],
    bm25: dict[str, float],
) -> list[_Asked]:
    """What one side knows of the other's points, and how near each sentence is to all of them.

    Sentences are not searched for: points that are near to one of them and to nothing else brought 0.1 points of
    recall@5 to requests for several tools, for a scan each.
    """
    everyone = _among({**cosines, **bm25})
    return [
        _Asked(bm25, words, *_among([point for point in cosines if point not in bm25])),
        _Asked(cosines, dense, *_among([point for point in bm25 if point not in cosines])),
        *(_Asked(cosines, list(part), *everyone) for part in query.parts),
    ]


def _among(points: Collection[str]) -> tuple[models.Filter, int]:
    return models.Filter(must=[models.HasIdCondition(has_id=list(points))]), len(points)
