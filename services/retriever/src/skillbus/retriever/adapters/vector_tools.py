"""The index of tools in the vector store."""

from collections.abc import Mapping, Sequence
from typing import Final

from qdrant_client import models

from skillbus.retriever.adapters.live_collection import LiveCollection, any_of, weights_of
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.hit import StoredTool
from skillbus.retriever.domain.tools.ranking import Candidate
from skillbus.retriever.domain.tools.search import Wanted
from skillbus.vectors import VectorSearch
from skillbus.vectors.datasets import TOOLS

_PAYLOAD: Final = (
    *("tool_id", "name", "description", "tool_type", "tags", "metadata"),
    *("source", "provider", "arguments", "argument_text", "examples"),
)


class VectorTools:
    """Searches the collection behind the alias `tools`."""

    def __init__(self, store: VectorSearch) -> None:
        self._collection = LiveCollection(store, TOOLS)

    async def live(self) -> LiveIndex | None:
        return await self._collection.live()

    async def size(self, live: LiveIndex, project: str) -> int:
        return await self._collection.size(live, (project,))

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        return await self._collection.candidates(live, query, _condition(wanted), wanted.count)

    async def tools(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, StoredTool]:
        records = await self._collection.retrieve(live, points, _PAYLOAD, weights=True)
        return {str(record.id): _tool(record) for record in records}


def _condition(wanted: Wanted) -> models.Filter:
    must: list[models.Condition] = [any_of("project", (wanted.project,))]
    for key, values in (("tool_type", wanted.tool_types), ("tags", wanted.tags), ("source", wanted.sources)):
        if values:
            must.append(any_of(key, values))
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
        weights=weights_of(record),
    )
