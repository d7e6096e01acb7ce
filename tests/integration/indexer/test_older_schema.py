"""A store that an earlier version filled is built anew when the indexer of this one is started on it."""

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.index_switch import ROLL_BACK, IndexSelector
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditIndex
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import CollectionSpec, VectorStore, models, point_id
from skillbus.vectors.datasets import KNOWLEDGE, TOOLS

from .fake_embedder import DIMENSIONS, FakeEmbedder
from .fake_learner import FakeLearner, item
from .test_tools import audit, points, put, tool

OLDER = "tools-aaaa-v1"
OLDER_KNOWLEDGE = "knowledge-aaaa-v1"


async def make_older(store: VectorStore) -> None:
    """What is searched, as a version wrote it that knew neither sources nor arguments."""
    newer = TOOLS.name_collection("aaaa")
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
            lambda: store.resolve_alias(TOOLS.alias), lambda live: live == TOOLS.name_collection("aaaa"), wait_s=10
        )
        found = await points(store)
        assert len(found) == 40
        assert {payload["source"] for payload in found.values()} == {"lab"}
        assert (await audit(bus)).differences == ()


async def make_older_knowledge(store: VectorStore) -> None:
    """What is searched, as a version wrote it whose points had ids of their own, made from project and item."""
    newer = KNOWLEDGE.name_collection("aaaa")
    records, _ = await store.scroll(newer, with_vectors=True)
    await store.ensure_collection(OLDER_KNOWLEDGE, CollectionSpec(dim=DIMENSIONS["aaaa"]))
    older = []
    for record in records:
        assert isinstance(record.vector, dict)
        assert record.payload is not None
        old_id = point_id("knowledge", record.payload["project"], record.payload["item_id"])
        older.append(models.PointStruct(id=old_id, vector=record.vector, payload=record.payload))
    await store.upsert(OLDER_KNOWLEDGE, older)
    await store.switch_aliases({KNOWLEDGE.alias: OLDER_KNOWLEDGE})
    await store.delete_collection(newer)


async def test_knowledge_of_an_older_schema_is_replaced_after_a_restart_and_goes_when_it_was_kept(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder, learner: FakeLearner
) -> None:
    items = [item(f"i{number}") for number in range(40)]
    async with open_indexer(bus, settings, store):
        await learner.write(*items)
        await learner.until_heard_of(*items)
    await make_older_knowledge(store)
    newer = KNOWLEDGE.name_collection("aaaa")
    hurried = settings.model_copy(update={"keep_old_index_s": 0.2, "switch_lease_s": 1})
    async with open_indexer(bus, hurried, store):
        await eventually(lambda: store.resolve_alias(KNOWLEDGE.alias), lambda live: live == newer, wait_s=10)
        await eventually(store.list_collections, lambda names: OLDER_KNOWLEDGE not in names, wait_s=10)
        points, _ = await store.scroll(KNOWLEDGE.alias)
        assert {point.id for point in points} == {one.id for one in items}
        assert (await bus.caller.call(AUDIT_INDEX, AuditIndex())).differences == ()


async def test_an_index_of_an_older_schema_that_is_gone_back_to_has_points_as_they_are_now(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder, learner: FakeLearner
) -> None:
    items = [item(f"i{number}") for number in range(40)]
    async with open_indexer(bus, settings, store):
        await learner.write(*items)
        await learner.until_heard_of(*items)
    await make_older_knowledge(store)

    async def ids() -> set[object]:
        points, _ = await store.scroll(OLDER_KNOWLEDGE)
        return {point.id for point in points}

    async with open_indexer(bus, settings, store):
        newer = KNOWLEDGE.name_collection("aaaa")
        await eventually(lambda: store.resolve_alias(KNOWLEDGE.alias), lambda live: live == newer, wait_s=10)
        await bus.caller.call(ROLL_BACK, IndexSelector(alias=KNOWLEDGE.alias))
        assert await store.resolve_alias(KNOWLEDGE.alias) == OLDER_KNOWLEDGE
        await eventually(ids, lambda found: found == {one.id for one in items}, wait_s=10)
