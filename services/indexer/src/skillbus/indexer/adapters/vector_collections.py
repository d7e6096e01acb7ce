"""Collections of an index in the vector store, with one point for each entry."""

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import IndexModel
from skillbus.indexer.adapters.points.layout import PointBuilder
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.ports import EntryT, IndexedPoint, Key, hash_content
from skillbus.vectors import CollectionSpec, VectorStore, VectorStoreError, models
from skillbus.vectors.datasets import parse_fingerprint


class StoredCollections(Generic[EntryT]):
    """The collections of a dataset and their alias."""

    def __init__(self, store: VectorStore, points: PointBuilder[EntryT]) -> None:
        self._store = store
        self._points = points
        self._layout = points.layout
        self._dataset = points.layout.dataset
        id_field = self._layout.id_field
        self._compared = ("project", "content_hash") if id_field is None else ("project", id_field, "content_hash")

    def name_collection(self, fingerprint: str) -> str:
        return self._dataset.name_collection(fingerprint)

    def read_fingerprint(self, collection: str) -> str:
        return parse_fingerprint(collection)

    async def find_live(self) -> str | None:
        with _raise_unavailable():
            return await self._store.resolve_alias(self._dataset.alias)

    async def list_names(self) -> frozenset[str]:
        with _raise_unavailable():
            names = await self._store.list_collections()
        return frozenset(name for name in names if name.startswith(self._dataset.prefix))

    async def ensure_collection(self, model: IndexModel) -> None:
        spec = CollectionSpec(model.dimensions, self._layout.keywords, self._layout.numbers)
        with _raise_unavailable():
            await self._store.ensure_collection(model.collection, spec)

    async def point_alias(self, collection: str) -> None:
        with _raise_unavailable():
            await self._store.switch_aliases({self._dataset.alias: collection})

    async def delete_collection(self, collection: str) -> None:
        with _raise_unavailable():
            await self._store.delete_collection(collection)

    async def count_points(self, collection: str) -> int:
        with _raise_unavailable():
            return await self._store.count(collection)

    async def scan_points(self, collection: str) -> AsyncIterator[IndexedPoint]:
        offset: str | None = None
        while True:
            with _raise_unavailable():
                records, offset = await self._store.scroll(collection, offset=offset, with_payload=self._compared)
            for record in records:
                yield self._read_point(record)
            if offset is None:
                return
            await asyncio.sleep(0)  # an embedded store never yields to the event loop

    async def load_hashes(self, collection: str, keys: Sequence[Key]) -> Mapping[Key, str]:
        with _raise_unavailable():
            found = await self._store.retrieve(collection, self._make_ids(keys), with_payload=self._compared)
        points = [self._read_point(record) for record in found]
        return {point.key: point.content_hash for point in points}

    async def write_points(
        self,
        collection: str,
        entries: Sequence[EntryT],
        *,
        insert_only: bool = False,
        dense_required: bool = False,
    ) -> bool:
        if not entries:
            return True
        with _raise_unavailable():
            built = await self._points.build_points(
                parse_fingerprint(collection), entries, dense_required=dense_required
            )
            points = built.points if built.complete else await self._drop_current(collection, entries, built.points)
            if points:
                await self._store.upsert(collection, points, insert_only=insert_only)
        return built.complete

    async def remove_points(self, collection: str, keys: Sequence[Key]) -> None:
        if keys:
            with _raise_unavailable():
                await self._store.delete(collection, self._make_ids(keys))

    async def _drop_current(
        self, collection: str, entries: Sequence[EntryT], points: Sequence[models.PointStruct]
    ) -> list[models.PointStruct]:
        """Return the points without those whose stored point is up to date: it has the dense vector that these lack."""
        hashes = await self.load_hashes(collection, [entry.key for entry in entries])
        fingerprint = parse_fingerprint(collection)
        return [
            point
            for entry, point in zip(entries, points, strict=True)
            if hashes.get(entry.key) != hash_content(entry, fingerprint)
        ]

    def _make_ids(self, keys: Sequence[Key]) -> list[str]:
        return [self._points.make_point_id(key) for key in keys]

    def _read_point(self, record: models.Record) -> IndexedPoint:
        payload, id_field = record.payload or {}, self._layout.id_field
        entry_id = record.id if id_field is None else payload.get(id_field, "")
        return IndexedPoint((payload.get("project", ""), entry_id), payload.get("content_hash", ""))


@contextmanager
def _raise_unavailable() -> Generator[None]:
    try:
        yield
    except (VectorStoreError, RequestError) as error:
        raise IndexUnavailableError(str(error)) from error
