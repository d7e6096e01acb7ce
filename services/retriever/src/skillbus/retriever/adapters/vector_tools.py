"""The index of tools in the vector store."""

import math
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from qdrant_client import models

from skillbus.retriever.domain.errors import StoreUnavailableError
from skillbus.retriever.domain.ranking import Candidate
from skillbus.retriever.domain.search import EmbeddedQuery, LiveIndex, Wanted
from skillbus.retriever.domain.tool import StoredTool
from skillbus.vectors import DENSE, LEXICAL, CollectionMissing, VectorSearch, VectorStoreUnavailable
from skillbus.vectors.datasets import TOOLS, model_of

_LIVE_FOR_S: Final = 1.0
"""How long the alias is taken to point where it did: the collection before a switch is kept, so that this is safe."""
_SIZE_FOR_S: Final = 2.0
_SIZES: Final = 1_024
_PAYLOAD: Final = (
    *("tool_id", "name", "description", "tool_type", "tags", "metadata"),
    *("source", "provider", "arguments", "argument_text", "examples"),
)


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
    tools: int
    until: float
    """Of `time.monotonic`."""


class VectorTools:
    """Searches the collection behind the alias `tools`."""

    def __init__(self, store: VectorSearch) -> None:
        self._store = store
        self._live: LiveIndex | None = None
        self._live_until = 0.0
        self._sizes: dict[tuple[str, str], _Size] = {}

    async def live(self) -> LiveIndex | None:
        if self._live is None or time.monotonic() >= self._live_until:
            with _as_unavailable():
                self._live = await self._resolve()
            self._live_until = time.monotonic() + _LIVE_FOR_S
        return self._live

    async def size(self, live: LiveIndex, project: str) -> int:
        key, now = (live.collection, project), time.monotonic()
        known = self._sizes.get(key)
        if known is None or now >= known.until:
            with _as_unavailable():
                count = await self._store.count(live.collection, models.Filter(must=[_of(project)]))
            if len(self._sizes) >= _SIZES:
                self._sizes.clear()
            self._sizes[key] = known = _Size(count, now + _SIZE_FOR_S)
        return known.tools

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        cosines: dict[str, float] = {}
        bm25: dict[str, float] = {}
        dense = None if query.dense is None else list(query.dense)
        words = models.SparseVector(indices=list(query.indices), values=list(query.values)) if query.indices else None
        fitting = _condition(wanted)
        await self._score(
            live, [_Asked(cosines, dense, fitting, wanted.count), _Asked(bm25, words, fitting, wanted.count)]
        )
        if dense is not None:
            await self._score(live, _missing(query, dense, words, cosines, bm25))
        points = bm25 if dense is None else cosines
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
        with _as_unavailable():
            answers = await self._store.query(live.collection, requests)
        for one, hits in zip(asked, answers, strict=True):
            for hit in hits:
                one.scores[hit.id] = max(hit.score, one.scores.get(hit.id, -math.inf))

    async def tools(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, StoredTool]:
        with _as_unavailable():
            records = await self._store.retrieve(
                live.collection, points, with_payload=_PAYLOAD, with_vectors=(LEXICAL,)
            )
        return {str(record.id): _tool(record) for record in records}

    async def _resolve(self) -> LiveIndex | None:
        collection = await self._store.resolve_alias(TOOLS.alias)
        if collection is None:
            return None
        return LiveIndex(collection, model_of(collection), await self._store.count(collection))


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


def _of(project: str) -> models.FieldCondition:
    return models.FieldCondition(key="project", match=models.MatchValue(value=project))


def _condition(wanted: Wanted) -> models.Filter:
    must: list[models.Condition] = [_of(wanted.project)]
    for key, values in (("tool_type", wanted.tool_types), ("tags", wanted.tags), ("source", wanted.sources)):
        if values:
            must.append(models.FieldCondition(key=key, match=models.MatchAny(any=list(values))))
    return models.Filter(must=must)


def _tool(record: models.Record) -> StoredTool:
    """Read field by field: a validator took as long as the store took to give it."""
    payload = record.payload or {}
    return StoredTool(
        id=payload["tool_id"],
        name=payload["name"],
        description=payload["description"],
        tool_type=payload.get("tool_type"),
        tags=tuple(payload.get("tags") or ()),
        source=payload.get("source"),
        provider=payload.get("provider") or "",
        arguments=tuple(payload.get("arguments") or ()),
        argument_text=payload.get("argument_text") or "",
        examples=tuple(payload.get("examples") or ()),
        metadata=payload.get("metadata") or {},
        weights=_weights(record),
    )


def _weights(record: models.Record) -> dict[int, float]:
    vector = record.vector.get(LEXICAL) if isinstance(record.vector, dict) else None
    return dict(zip(vector.indices, vector.values, strict=True)) if isinstance(vector, models.SparseVector) else {}


@contextmanager
def _as_unavailable() -> Generator[None]:
    try:
        yield
    except (VectorStoreUnavailable, CollectionMissing) as error:
        raise StoreUnavailableError(str(error)) from error
