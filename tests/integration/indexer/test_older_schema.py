"""A store that an earlier version filled is built anew when the indexer of this one is started on it."""

from qdrant_client import models

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import CollectionSpec, VectorStore
from skillbus.vectors.datasets import TOOLS

from .fake_embedder import DIMENSIONS, FakeEmbedder
from .test_tools import audit, points, put, tool

OLDER = "tools-aaaa-v1"


async def make_older(store: VectorStore) -> None:
    """What is searched, as a version wrote it that knew neither sources nor arguments."""
    newer = TOOLS.collection_of("aaaa")
    records, _ = await store.scroll(newer, with_vectors=True)
    await store.ensure_collection(OLDER, CollectionSpec(dim=DIMENSIONS["aaaa"]))
    kept = ("project", "tool_id", "name", "description", "tool_type", "tags", "content_hash")
    older = []
    for record in records:
        assert isinstance(record.vector, dict)
        payload = {field: (record.payload or {})[field] for field in kept}
        older.append(models.PointStruct(id=record.id, vector=record.vector, payload={**payload, "content_hash": "v1"}))
    await store.upsert(OLDER, older)
    await store.switch_aliases({TOOLS.alias: OLDER})
    await store.delete_collection(newer)


async def test_an_index_of_an_older_schema_is_replaced_after_a_restart(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder
) -> None:
    async with open_indexer(bus, settings, store):
        await put(bus, *(tool(f"t{number}") for number in range(40)))
    await make_older(store)
    async with open_indexer(bus, settings, store):
        await eventually(
            lambda: store.resolve_alias(TOOLS.alias), lambda live: live == TOOLS.collection_of("aaaa"), wait_s=10
        )
        found = await points(store)
        assert len(found) == 40
        assert {payload["source"] for payload in found.values()} == {"lab"}
        assert (await audit(bus)).differences == ()
