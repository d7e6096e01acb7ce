"""The index of tools in the vector store."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pydantic import TypeAdapter
from qdrant_client import models

from skillbus.retriever.domain.errors import StoreUnavailableError
from skillbus.retriever.domain.ranking import Candidate
from skillbus.retriever.domain.search import EmbeddedQuery, LiveIndex, Wanted
from skillbus.retriever.domain.tool import StoredTool
from skillbus.vectors import DENSE, LEXICAL, CollectionMissing, VectorSearch, VectorStoreUnavailable
from skillbus.vectors.tools import ALIAS, model_of

_LIVE_FOR_S: Final = 1.0
"""How long the alias is taken to point where it did: the collection before a switch is kept, so that this is safe."""
_PAYLOAD: Final = ("tool_id", "name", "description", "tool_type", "tags", "metadata")
_TOOL: Final = TypeAdapter(StoredTool)


class VectorTools:
    """Searches the collection behind the alias `tools`."""

    def __init__(self, store: VectorSearch) -> None:
        self._store = store
        self._live: LiveIndex | None = None
        self._live_until = 0.0

    async def live(self) -> LiveIndex | None:
        if self._live is None or time.monotonic() >= self._live_until:
            with _as_unavailable():
                self._live = await self._resolve()
            self._live_until = time.monotonic() + _LIVE_FOR_S
        return self._live

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        with _as_unavailable():
            near, by_words = await self._both_sides(live, query, wanted)
            cosines = {str(point.id): point.score for point in near}
            only_words = [str(point.id) for point in by_words if str(point.id) not in cosines]
            if query.dense is not None and only_words:
                cosines |= await self._cosines(live, query.dense, only_words)
        bm25 = {str(point.id): point.score for point in by_words}
        return [Candidate(point, cosines.get(point), bm25.get(point)) for point in {**cosines, **bm25}]

    async def tools(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, StoredTool]:
        with _as_unavailable():
            records = await self._store.retrieve(
                live.collection, points, with_payload=_PAYLOAD, with_vectors=(LEXICAL,)
            )
        return {str(record.id): _tool(record) for record in records}

    async def _resolve(self) -> LiveIndex | None:
        collection = await self._store.resolve_alias(ALIAS)
        if collection is None:
            return None
        return LiveIndex(collection, model_of(collection), await self._store.count(collection))

    async def _both_sides(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted
    ) -> tuple[list[models.ScoredPoint], list[models.ScoredPoint]]:
        condition = _condition(wanted)
        sides: dict[str, models.QueryRequest] = {}
        if query.dense is not None:
            sides[DENSE] = _request(list(query.dense), DENSE, condition, wanted.count)
        if query.indices:
            sparse = models.SparseVector(indices=list(query.indices), values=list(query.values))
            sides[LEXICAL] = _request(sparse, LEXICAL, condition, wanted.count)
        if not sides:
            return [], []
        answers = await self._store.query(live.collection, list(sides.values()))
        found = dict(zip(sides, answers, strict=True))
        return found.get(DENSE, []), found.get(LEXICAL, [])

    async def _cosines(self, live: LiveIndex, dense: Sequence[float], points: list[str]) -> dict[str, float]:
        condition = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        request = models.QueryRequest(query=list(dense), using=DENSE, filter=condition, limit=len(points))
        (answer,) = await self._store.query(live.collection, [request])
        return {str(point.id): point.score for point in answer}


def _request(
    query: list[float] | models.SparseVector, using: str, condition: models.Filter, limit: int
) -> models.QueryRequest:
    return models.QueryRequest(query=query, using=using, filter=condition, limit=limit, with_payload=False)


def _condition(wanted: Wanted) -> models.Filter:
    must: list[models.Condition] = [models.FieldCondition(key="project", match=models.MatchValue(value=wanted.project))]
    for key, values in (("tool_type", wanted.tool_types), ("tags", wanted.tags)):
        if values:
            must.append(models.FieldCondition(key=key, match=models.MatchAny(any=list(values))))
    return models.Filter(must=must)


def _tool(record: models.Record) -> StoredTool:
    payload = dict(record.payload or {})
    payload["id"] = payload.pop("tool_id")
    return _TOOL.validate_python({**payload, "term_indices": _indices(record)})


def _indices(record: models.Record) -> frozenset[int]:
    vector = record.vector.get(LEXICAL) if isinstance(record.vector, dict) else None
    return frozenset(vector.indices) if isinstance(vector, models.SparseVector) else frozenset()


@contextmanager
def _as_unavailable() -> Generator[None]:
    try:
        yield
    except (VectorStoreUnavailable, CollectionMissing) as error:
        raise StoreUnavailableError(str(error)) from error
