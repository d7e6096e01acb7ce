"""Collections of tools in the vector store: one point a tool."""

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from skillbus.contracts.errors import RequestError
from skillbus.contracts.index_switch import IndexModel
from skillbus.indexer.adapters.tool_points import ToolPoints, point_of
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index_entry import IndexEntry
from skillbus.indexer.domain.tool_collections import IndexedTool
from skillbus.indexer.domain.tool_record import Key
from skillbus.vectors import CollectionSpec, VectorStore, VectorStoreError
from skillbus.vectors.datasets import TOOLS, model_of

_PREFIX: Final = f"{TOOLS.alias}-"
_KEYWORDS: Final = ("tool_type", "tags", "name", "source")
_COMPARED: Final = ("project", "tool_id", "content_hash")


class VectorToolCollections:
    """The collections of tools, and the alias `tools` before them."""

    def __init__(self, store: VectorStore, points: ToolPoints) -> None:
        self._store = store
        self._points = points

    def collection_of(self, fingerprint: str) -> str:
        return TOOLS.collection_of(fingerprint)

    def fingerprint_of(self, collection: str) -> str:
        return model_of(collection)

    async def live(self) -> str | None:
        with _unavailable():
            return await self._store.resolve_alias(TOOLS.alias)

    async def names(self) -> frozenset[str]:
        with _unavailable():
            return frozenset(name for name in await self._store.list_collections() if name.startswith(_PREFIX))

    async def ensure(self, model: IndexModel) -> None:
        with _unavailable():
            await self._store.ensure_collection(model.collection, CollectionSpec(model.dimensions, _KEYWORDS))

    async def point_alias(self, collection: str) -> None:
        with _unavailable():
            await self._store.switch_aliases({TOOLS.alias: collection})

    async def delete(self, collection: str) -> None:
        with _unavailable():
            await self._store.delete_collection(collection)

    async def count(self, collection: str) -> int:
        with _unavailable():
            return await self._store.count(collection)

    async def tools(self, collection: str) -> AsyncIterator[IndexedTool]:
        offset: str | None = None
        while True:
            with _unavailable():
                records, offset = await self._store.scroll(collection, offset=offset, with_payload=_COMPARED)
            for record in records:
                yield _tool(record.payload or {})
            if offset is None:
                return
            await asyncio.sleep(0)  # an embedded store answers without giving others a turn

    async def hashes(self, collection: str, keys: Sequence[Key]) -> Mapping[Key, str]:
        with _unavailable():
            found = await self._store.retrieve(collection, [point_of(*key) for key in keys], with_payload=_COMPARED)
        tools = [_tool(record.payload or {}) for record in found]
        return {tool.key: tool.content_hash for tool in tools}

    async def write(
        self,
        collection: str,
        entries: Sequence[IndexEntry],
        *,
        insert_only: bool = False,
        dense_required: bool = False,
    ) -> bool:
        if not entries:
            return True
        with _unavailable():
            made = await self._points.of(model_of(collection), entries, dense_required=dense_required)
            await self._store.upsert(collection, made.points, insert_only=insert_only)
        return made.whole

    async def remove(self, collection: str, keys: Sequence[Key]) -> None:
        if keys:
            with _unavailable():
                await self._store.delete(collection, [point_of(*key) for key in keys])


def _tool(payload: Mapping[str, str]) -> IndexedTool:
    return IndexedTool(payload.get("project", ""), payload.get("tool_id", ""), payload.get("content_hash", ""))


@contextmanager
def _unavailable() -> Generator[None]:
    try:
        yield
    except (VectorStoreError, RequestError) as error:
        raise IndexUnavailableError(str(error)) from error
