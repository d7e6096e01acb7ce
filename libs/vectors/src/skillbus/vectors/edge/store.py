"""The vector store on Qdrant Edge: the engine inside this process, with one shard per collection in one directory.

Searches scan all points and no graph is built: up to 50,000 points that takes milliseconds, and no filter loses hits.
Beyond that, `health` advises a server.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import qdrant_edge as edge

from skillbus.vectors import checks, models
from skillbus.vectors.edge.calls import call_edge
from skillbus.vectors.edge.directory import EdgeDirectory, lock_directory
from skillbus.vectors.edge.models import (
    build_config,
    find_top_fields,
    format_offset,
    read_packed,
    translate_filter,
    translate_point,
    translate_record,
)
from skillbus.vectors.edge.search import IdleConditions, search_shard
from skillbus.vectors.errors import CollectionMismatch, CollectionMissing, VectorStoreError, VectorStoreUnavailable
from skillbus.vectors.store import CollectionSpec, Hit, PayloadFields, StoreHealth, VectorNames

UPSERT_CHUNK: Final = 100
"""Points written between two turns of the event loop: 10 to 25 ms with 512 dimensions."""

FLUSH_DELAY_S: Final = 5.0
"""Delay of the fsync after a write. Until then the write is in the log: a killed process loses nothing.

A flush stops the loop for 10 to 40 ms, however little there is to write, so it must not run more often while an index
is filled.
"""

EXACT_SCAN_POINTS: Final = 50_000
"""Points of a collection up to which a scan stays below 10 ms."""

_logger = logging.getLogger(__name__)


class FlushBehind:
    """Calls `flush` `delay_s` seconds after a write was marked. A failed flush is logged and repeated."""

    def __init__(self, flush: Callable[[], Awaitable[None]], delay_s: float) -> None:
        self._flush = flush
        self._delay_s = delay_s
        self._written = asyncio.Event()

    def mark_write(self) -> None:
        self._written.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the flushing task. Writes that are still marked at the end are left to the caller's last flush."""
        task = asyncio.create_task(self._run(), name="vector-store-flush")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            await self._written.wait()
            await asyncio.sleep(self._delay_s)
            self._written.clear()
            try:
                await self._flush()
            except VectorStoreError:
                _logger.exception("vector_store_flush_failed")
                self._written.set()


@asynccontextmanager
async def open_edge_store(
    path: Path, *, exact_scan_points: int = EXACT_SCAN_POINTS
) -> AsyncIterator["EdgeVectorStore"]:
    """Lock the directory, load its collections, and flush after writes while the store is open."""
    with lock_directory(path):
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
    """Fields that filters may read: those with an index, also one in creation."""
    idle: IdleConditions


class EdgeVectorStore:
    """`VectorStore` in a directory that the caller has locked. Calls run on the event loop's thread."""

    def __init__(self, directory: EdgeDirectory, *, exact_scan_points: int) -> None:
        self._directory = directory
        self._exact_scan_points = exact_scan_points
        self._collections: dict[str, _Collection] = {}
        self._aliases: dict[str, str] = {}
        self._revisions: dict[str, int] = {}
        self._writes = itertools.count(1)
        self._unflushed: set[str] = set()
        self.flush_behind = FlushBehind(self.flush, FLUSH_DELAY_S)
        self._outgrown: set[str] = set()
        self._flush_failure: str | None = None
        self._closed = False

    async def load(self) -> None:
        """Load the collections of the directory. 10,000 points take 0.1 s, during which the loop is blocked."""
        call_edge(self._directory.sweep)
        self._aliases = self._directory.read_aliases()
        for name in self._directory.list_names():
            self._load(name)
            await asyncio.sleep(0)

    def _load(self, name: str) -> None:
        spec = self._directory.read_spec(name)
        path = self._directory.shard_path(name)
        try:
            shard = call_edge(edge.EdgeShard.load, str(path))
        except VectorStoreError as error:
            message = f"collection {name!r} cannot be opened; remove {path.parent} and index it again ({error})"
            raise VectorStoreUnavailable(message) from error
        filtered = frozenset(call_edge(shard.info).payload_schema)
        self._collections[name] = _Collection(name, spec, shard, filtered, IdleConditions())
        self._revisions[name] = next(self._writes)
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
        answers = search_shard(found.shard, found.spec.dim, requests, found.idle)
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
        points = call_edge(found.shard.retrieve, list(ids), with_payload is not False, _selected(with_vectors))
        return [translate_record(point, with_payload) for point in points]

    def get_revision(self, collection: str) -> int | None:
        return self._revisions.get(self._aliases.get(collection, collection))

    async def count(self, collection: str, condition: models.Filter | None = None) -> int:
        found = self._collection(collection)
        checks.check_fields(condition, found.filtered)
        request = call_edge(lambda: edge.CountRequest(exact=True, filter=translate_filter(condition)))
        return call_edge(found.shard.count, request)

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
        """Add the missing indexes after their fields are stored by themselves in every point."""
        present = set(call_edge(found.shard.info).payload_schema)
        missing = {spec.tenant, *spec.keywords, *spec.numbers} - present
        if not missing:
            return
        self._collections[found.name] = replace(found, filtered=found.filtered | missing)
        await self._set_apart(found.name, find_top_fields(missing))
        for operation in _index_operations(spec, present):
            call_edge(found.shard.update, operation)

    async def _set_apart(self, name: str, fields: frozenset[str]) -> None:
        offset = None
        while True:
            found = self._collection(name)  # looked up again: another task may have deleted it
            request = edge.ScrollRequest(offset=offset, limit=UPSERT_CHUNK, with_payload=True, with_vector=False)
            points, offset = call_edge(found.shard.scroll, request)
            for point in points:
                rest = read_packed(point.payload or {})
                if values := {field: rest[field] for field in fields if field in rest}:
                    self._update(found, call_edge(edge.UpdateOperation.set_payload, [point.id], values))
            if offset is None:
                return
            await asyncio.sleep(0)

    def _create(self, name: str, spec: CollectionSpec) -> None:
        """Create the collection in a hidden folder and rename it: a killed process leaves no half of a collection."""
        checks.check_creation(name, self._aliases)
        self._directory.check_room_for_collection()
        staging = call_edge(self._directory.create_staging)
        shard = call_edge(
            edge.EdgeShard.create,
            str(self._directory.shard_path(staging)),
            build_config(spec, in_memory_disk=self._directory.allocates_holes),
        )
        for operation in _index_operations(spec, set()):
            call_edge(shard.update, operation)
        call_edge(shard.close)
        call_edge(self._directory.write_spec, staging, spec)
        call_edge(self._directory.publish, staging, name)
        self._load(name)

    async def delete_collection(self, name: str) -> bool:
        checks.check_name(name)
        self._check_open()
        found = self._collections.get(name)
        if found is None:
            return False
        self._put_aliases({alias: target for alias, target in self._aliases.items() if target != name})
        del self._collections[name], self._revisions[name]
        self._unflushed.discard(name)
        self._outgrown.discard(name)
        call_edge(found.shard.close)
        hidden = call_edge(self._directory.hide, name)
        await asyncio.to_thread(call_edge, self._directory.delete_files, hidden)
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
            call_edge(self._directory.write_aliases, aliases)
            self._aliases = aliases

    async def upsert(self, collection: str, points: Sequence[models.PointStruct], *, insert_only: bool = False) -> None:
        name = self._collection(collection).name
        mode = edge.UpdateMode.InsertOnly if insert_only else edge.UpdateMode.Upsert
        for start in range(0, len(points), UPSERT_CHUNK):
            if start:
                await asyncio.sleep(0)
            found = self._collection(name)  # looked up again: another task may have deleted it
            given = points[start : start + UPSERT_CHUNK]
            checks.check_vectors(given)
            apart = find_top_fields(found.filtered)
            chunk = [call_edge(translate_point, point, found.spec.dim, apart) for point in given]
            self._update(found, call_edge(edge.UpdateOperation.upsert_points, chunk, None, mode))
        self._notice_size(self._collection(name))

    async def delete(self, collection: str, selection: Sequence[str] | models.Filter) -> None:
        found = self._collection(collection)
        if isinstance(selection, models.Filter):
            checks.check_deletion(selection)
            checks.check_fields(selection, found.filtered)
            condition = call_edge(translate_filter, selection) or edge.Filter()
            self._update(found, edge.UpdateOperation.delete_points_by_filter(condition))
        else:
            checks.check_ids(selection)
            self._update(found, edge.UpdateOperation.delete_points(list(selection)))
        self._notice_size(found)

    def _update(self, collection: _Collection, operation: edge.UpdateOperation) -> None:
        self._directory.check_room()
        self._revisions[collection.name] = next(self._writes)  # also of an update that fails half-way
        collection.idle.forget()
        call_edge(collection.shard.update, operation)
        self._unflushed.add(collection.name)
        self.flush_behind.mark_write()

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
            filter=call_edge(translate_filter, condition),
            with_payload=with_payload is not False,
            with_vector=_selected(with_vectors),
        )
        points, following = call_edge(found.shard.scroll, request)
        return [translate_record(point, with_payload) for point in points], format_offset(following)

    async def flush(self) -> None:
        self._check_open()
        for name in sorted(self._unflushed):
            self._unflushed.discard(name)
            if (found := self._collections.get(name)) is not None:
                try:
                    call_edge(found.shard.flush)
                except VectorStoreError as error:
                    self._unflushed.add(name)
                    self._flush_failure = str(error)
                    raise
            await asyncio.sleep(0)
        self._flush_failure = None

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for found in self._collections.values():
            try:
                call_edge(found.shard.close)  # flushes
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
        """Note, and log once, that a collection has outgrown the exact scan."""
        points = call_edge(collection.shard.info).points_count
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
    for key in spec.numbers:  # without an index, two ranges over 10,000 points took 0.5 ms more
        if key not in present:
            yield edge.UpdateOperation.create_field_index(key, edge.FloatIndexParams(enable_hnsw=False))


def _selected(names: bool | Sequence[str]) -> bool | list[str]:
    return names if isinstance(names, bool) else list(names)
