"""The index of tools in the vector store."""

from collections.abc import Mapping, Sequence
from typing import Final

from cachetools import LRUCache

from skillbus.contracts.indexer.tools import ToolType
from skillbus.retriever.adapters.live_collection import LiveCollection, has_any
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.retriever.domain.tools.hit import IndexedTool
from skillbus.retriever.domain.tools.search import WantedTools
from skillbus.vectors import VectorSearch, models
from skillbus.vectors.datasets import TOOLS

_PAYLOAD: Final = (
    *("tool_id", "name", "description", "tool_type", "tags", "metadata"),
    *("source", "provider", "arguments", "argument_text", "examples"),
)
_FUNCTIONS: Final = "functions"
_KEPT_TOOLS: Final = 1_024
"""Tools of the last searches that are kept, some 10 kB each: their payloads took a fifth of the time of a search."""


class VectorTools(LiveCollection):
    """A `ToolIndex`: the collection behind the alias `tools`."""

    def __init__(self, store: VectorSearch) -> None:
        super().__init__(store, TOOLS)
        self._kept: LRUCache[tuple[str, int, str], IndexedTool] = LRUCache(_KEPT_TOOLS)
        """Tools without functions by collection, its revision, and point."""

    def get_revision(self, live: LiveIndex) -> int | None:
        return self._store.get_revision(live.collection)

    async def count_matching(self, live: LiveIndex, wanted: WantedTools) -> int:
        return await self._count(live, make_tool_filter(wanted, wanted.tool_types))

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedTools
    ) -> Sequence[IndexCandidate]:
        groups = [(kind,) for kind in wanted.tool_types] if wanted.each_type else [wanted.tool_types]
        return await self._search(live, query, [make_tool_filter(wanted, types) for types in groups], wanted.count)

    async def load_tools(self, live: LiveIndex, points: Sequence[str], *, functions: bool) -> Mapping[str, IndexedTool]:
        if functions or (revision := self.get_revision(live)) is None:
            return await self._read_tools(live, points, (*_PAYLOAD, _FUNCTIONS) if functions else _PAYLOAD)
        keys = {point: (live.collection, revision, point) for point in points}
        tools = {point: tool for point, key in keys.items() if (tool := self._kept.get(key)) is not None}
        read = await self._read_tools(live, [point for point in points if point not in tools], _PAYLOAD)
        for point, tool in read.items():
            self._kept[keys[point]] = tool
        return {**tools, **read}

    async def _read_tools(
        self, live: LiveIndex, points: Sequence[str], payload: Sequence[str]
    ) -> dict[str, IndexedTool]:
        return {record.id: _make_tool(record, words) for record, words in await self._retrieve(live, points, payload)}


def make_tool_filter(wanted: WantedTools, types: Sequence[ToolType]) -> models.Filter:
    """Return the filter of tools of these types, or of all. A point without a type is a skill (tool-type.md 3.4)."""
    must: list[models.Condition] = [has_any("project", (wanted.project,))]
    if types:
        typed = has_any("tool_type", [kind.value for kind in types])
        untyped = models.IsEmptyCondition("tool_type")
        must.append(models.Filter(should=[typed, untyped]) if ToolType.SKILL in types else typed)
    for key, values in (("tags", wanted.tags), ("source", wanted.sources)):
        if values:
            must.append(has_any(key, values))
    return models.Filter(must=must)


def _make_tool(record: models.Record, words: models.SparseValues) -> IndexedTool:
    """Read field by field: a validator took as long as the store took for the point."""
    payload = record.payload or {}
    return IndexedTool(
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
        functions=payload.get(_FUNCTIONS),
        weights=dict(zip(words.indices, words.values, strict=True)),
    )
