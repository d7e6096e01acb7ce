"""The port on Qdrant Edge: the engine inside this process, one shard per collection under one directory.

Searches scan exactly and no graph is ever built: up to 50,000 points that takes milliseconds, and it cannot lose hits
behind a filter. Past that, `health` says that it is time for a server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import qdrant_edge as edge
from qdrant_client import models

from skillbus.vectors import checks
from skillbus.vectors.edge.calls import edge_call
from skillbus.vectors.edge.directory import EdgeDirectory, locked
from skillbus.vectors.edge.flush import FlushBehind
from skillbus.vectors.edge.models import (
    edge_config,
    edge_filter,
    edge_point,
    record,
    text_offset,
)
from skillbus.vectors.edge.payload import fields_of, rest_of
from skillbus.vectors.edge.search import search
from skillbus.vectors.errors import CollectionMismatch, CollectionMissing, VectorStoreError, VectorStoreUnavailable
from skillbus.vectors.store import CollectionSpec, Hit, PayloadFields, StoreHealth, VectorNames

UPSERT_CHUNK: Final = 100
"""Points written between two turns of the event loop: 10 to 25 ms of 512 dimensions."""

FLUSH_DELAY_S: Final = 5.0
"""How long after a write its fsync starts. Until then the log holds it: a killed process loses nothing.

A flush stops the loop for 10 to 40 ms, however little there is to write: not oftener, while an index is filled.
"""

EXACT_SCAN_POINTS: Final = 50_000
"""Points of one collection up to which an exact scan stays below 10 ms."""

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_edge_store(
    path: Path, *, exact_scan_points: int = EXACT_SCAN_POINTS
) -> AsyncIterator["EdgeVectorStore"]:
    """Own the directory, load every collection in it, and flush behind writes while it is open."""
    with locked(path):
        store = EdgeVectorStore(EdgeDirectory(path), exact_scan_points=exact_scan_points)
        try:
            await store.load()
            async with store.flush_behind.running():
                yield store
        finally:
            await store.close()


@dataclass(frozen=True, slots=True)
class _Collection:
    """An open shard."""

    name: str
    spec: CollectionSpec
    shard: edge.EdgeShard
    filtered: frozenset[str]
    """Keys that it can be filtered by, and that are indexed or about to be."""


class EdgeVectorStore:
    """`VectorStore` in a directory that the caller has locked; calls run on the event loop's thread."""

    def __init__(self, directory: EdgeDirectory, *, exact_scan_points: int) -> None:
        self._directory = directory
        self._exact_scan_points = exact_scan_points
        self._collections: dict[str, _Collection] = {}
        self._aliases: dict[str, str] = {}
        self._unflushed: set[str] = set()
        self.flush_behind = FlushBehind(self.flush, FLUSH_DELAY_S)
        self._outgrown: set[str] = set()
        self._flush_failure: str | None = None
        self._closed = False

    async def load(self) -> None:
        """Open what the directory holds; 10,000 points take 0.1 s, in which the loop stands still."""
        edge_call(self._directory.sweep)
        self._aliases = self._directory.aliases()
        for name in self._directory.names():
            self._load(name)
            await asyncio.sleep(0)

    def _load(self, name: str) -> None:
        spec = self._directory.spec(name)
        path = self._directory.shard(name)
        try:
            shard = edge_call(edge.EdgeShard.load, str(path))
        except VectorStoreError as error:
            message = f"collection {name!r} cannot be opened; remove {path.parent} and index it again ({error})"
            raise VectorStoreUnavailable(message) from error
        self._collections[name] = _Collection(name, spec, shard, frozenset(edge_call(shard.info).payload_schema))
        self._notice_size(self._collections[name])

    async def resolve_alias(self, alias: str) -> str | None:
        self._check_open()
        return self._aliases.get(alias)

    async def query(self, collection: str, requests: Sequence[models.QueryRequest]) -> list[list[Hit]]:
        checks.check_queries(requests)
        found = self._collection(collection)
        for request in requests:
            checks.check_fields(request.filter, found.filtered)
        if not requests:
            return []
        answers = search(found.shard, found.spec.dim, requests)
        return [[Hit(str(point.id), point.score) for point in answer] for answer in answers]

    async def retrieve(
        self,
        collection: str,
        ids: Sequence[str],
        *,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> list[models.Record]:
        checks.check_ids(ids)
        found = self._collection(collection)
        points = edge_call(found.shard.retrieve, list(ids), with_payload is not False, _selected(with_vectors))
        return [record(point, with_payload) for point in points]

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        found = self._collection(collection)
        checks.check_fields(condition, found.filtered)
        request = edge_call(lambda: edge.CountRequest(exact=True, filter=edge_filter(condition)))
        return edge_call(found.shard.count, request)

    async def health(self) -> StoreHealth:
        engine = f"Qdrant Edge {version('qdrant-edge-py')}"
        if self._closed:
            return StoreHealth(ready=False, engine=engine, notices=("the vector store is closed",))
        notices = [self._size_notice(name) for name in sorted(self._outgrown)]
        if self._flush_failure is not None:
            notices.append(f"writes of the last seconds would not survive a power cut: {self._flush_failure}")
        return StoreHealth(ready=True, engine=engine, notices=tuple(notices))

    async def ensure_collection(self, name: str, spec: CollectionSpec) -> bool:
        checks.check_name(name)
        checks.check_spec(spec)
        self._check_open()
        found = self._collections.get(name)
        if found is None:
            self._create(name, spec)
            return True
        if found.spec.dim != spec.dim:
            raise CollectionMismatch(name, spec.dim, found.spec.dim)
        await self._index(found, spec)
        return False

    async def _index(self, found: _Collection, spec: CollectionSpec) -> None:
        """Add the indexes that are missing, when their fields are set apart in every point, new ones among them."""
        present = set(edge_call(found.shard.info).payload_schema)
        missing = {spec.tenant, *spec.keywords, *spec.numbers} - present
        if not missing:
            return
        self._collections[found.name] = replace(found, filtered=found.filtered | missing)
        await self._set_apart(found.name, fields_of(missing))
        for operation in _index_operations(spec, present):
            edge_call(found.shard.update, operation)

    async def _set_apart(self, name: str, fields: frozenset[str]) -> None:
        offset = None
        while True:
            found = self._collection(name)  # again: it may have been deleted meanwhile
            request = edge.ScrollRequest(offset=offset, limit=UPSERT_CHUNK, with_payload=True, with_vector=False)
            points, offset = edge_call(found.shard.scroll, request)
            for point in points:
                rest = rest_of(point.payload or {})
                if values := {field: rest[field] for field in fields if field in rest}:
                    self._update(found, edge_call(edge.UpdateOperation.set_payload, [point.id], values))
            if offset is None:
                return
            await asyncio.sleep(0)

    def _create(self, name: str, spec: CollectionSpec) -> None:
        """Make it aside and publish it by a rename: a killed process leaves no half-made collection."""
        checks.check_creation(name, self._aliases)
        staging = edge_call(self._directory.staging)
        shard = edge_call(edge.EdgeShard.create, str(self._directory.shard(staging)), edge_config(spec))
        for operation in _index_operations(spec, set()):
            edge_call(shard.update, operation)
        edge_call(shard.close)
        edge_call(self._directory.put_spec, staging, spec)
        edge_call(self._directory.publish, staging, name)
        self._load(name)

    async def delete_collection(self, name: str) -> bool:
        checks.check_name(name)
        self._check_open()
        found = self._collections.get(name)
        if found is None:
            return False
        self._put_aliases({alias: target for alias, target in self._aliases.items() if target != name})
        del self._collections[name]
        self._unflushed.discard(name)
        self._outgrown.discard(name)
        edge_call(found.shard.close)
        hidden = edge_call(self._directory.hide, name)
        await asyncio.to_thread(edge_call, self._directory.remove, hidden)
        return True

    async def list_collections(self) -> list[str]:
        self._check_open()
        return sorted(self._collections)

    async def switch_aliases(self, targets: Mapping[str, str]) -> None:
        self._check_open()
        checks.check_switch(targets, self._collections)
        self._put_aliases({**self._aliases, **targets})

    def _put_aliases(self, aliases: dict[str, str]) -> None:
        if aliases != self._aliases:
            edge_call(self._directory.put_aliases, aliases)
            self._aliases = aliases

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        name = self._collection(collection).name
        mode = edge.UpdateMode.InsertOnly if insert_only else edge.UpdateMode.Upsert
        for start in range(0, len(points), UPSERT_CHUNK):
            if start:
                await asyncio.sleep(0)
            found = self._collection(name)  # again: it may have been deleted meanwhile
            given = points[start : start + UPSERT_CHUNK]
            checks.check_vectors(given)
            apart = fields_of(found.filtered)
            chunk = [edge_call(edge_point, point, found.spec.dim, apart) for point in given]
            self._update(found, edge_call(edge.UpdateOperation.upsert_points, chunk, None, mode))
        self._notice_size(self._collection(name))

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        found = self._collection(collection)
        if isinstance(selection, models.Filter):
            checks.check_deletion(selection)
            checks.check_fields(selection, found.filtered)
            condition = edge_call(edge_filter, selection) or edge.Filter()
            self._update(found, edge.UpdateOperation.delete_points_by_filter(condition))
        else:
            checks.check_ids(selection)
            self._update(found, edge.UpdateOperation.delete_points(list(selection)))
        self._notice_size(found)

    def _update(self, collection: _Collection, operation: edge.UpdateOperation) -> None:
        edge_call(collection.shard.update, operation)
        self._unflushed.add(collection.name)
        self.flush_behind.mark()

    async def scroll(
        self,
        collection: str,
        *,
        condition: models.Filter | None = None,
        limit: int = 256,
        offset: str | None = None,
        with_payload: PayloadFields = True,
        with_vectors: VectorNames = False,
    ) -> tuple[list[models.Record], str | None]:
        checks.check_page(limit, offset)
        found = self._collection(collection)
        checks.check_fields(condition, found.filtered)
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=edge_call(edge_filter, condition),
            with_payload=with_payload is not False,
            with_vector=_selected(with_vectors),
        )
        points, following = edge_call(found.shard.scroll, request)
        return [record(point, with_payload) for point in points], text_offset(following)

    async def flush(self) -> None:
        self._check_open()
        for name in sorted(self._unflushed):
            self._unflushed.discard(name)
            if (found := self._collections.get(name)) is not None:
                self._flush_collection(found)
            await asyncio.sleep(0)
        self._flush_failure = None

    def _flush_collection(self, collection: _Collection) -> None:
        try:
            edge_call(collection.shard.flush)
        except VectorStoreError as error:
            self._unflushed.add(collection.name)
            self._flush_failure = str(error)
            raise

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for found in self._collections.values():
            try:
                edge_call(found.shard.close)  # flushes
            except VectorStoreError:
                _logger.exception("vector_store_close_failed", extra={"collection": found.name})
        self._collections.clear()

    def _collection(self, name: str) -> _Collection:
        self._check_open()
        found = self._collections.get(self._aliases.get(name, name))
        if found is None:
            raise CollectionMissing(name)
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise VectorStoreUnavailable("the vector store is closed")

    def _notice_size(self, collection: _Collection) -> None:
        """Remember, and log the first time, that a collection has outgrown the exact scan."""
        points = edge_call(collection.shard.info).points_count
        if points <= self._exact_scan_points:
            self._outgrown.discard(collection.name)
        elif collection.name not in self._outgrown:
            self._outgrown.add(collection.name)
            _logger.warning("vector_store_outgrown: %s", self._size_notice(collection.name))

    def _size_notice(self, name: str) -> str:
        return (
            f"collection {name!r} has more than {self._exact_scan_points} points, and every search scans them all; "
            "it is time for a Qdrant server"
        )


def _index_operations(spec: CollectionSpec, present: set[str]) -> Iterator[edge.UpdateOperation]:
    for key in dict.fromkeys((spec.tenant, *spec.keywords)):
        if key not in present:
            schema = edge.KeywordIndexParams(is_tenant=key == spec.tenant, enable_hnsw=False)
            yield edge.UpdateOperation.create_field_index(key, schema)
    for key in spec.numbers:  # two ranges over 10,000 points read from their payload took 0.5 ms more
        if key not in present:
            yield edge.UpdateOperation.create_field_index(key, edge.FloatIndexParams(enable_hnsw=False))


def _selected(names: bool | Sequence[str]) -> bool | list[str]:
    return names if isinstance(names, bool) else list(names)
