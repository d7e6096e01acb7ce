"""The index of knowledge follows the record on a real nats-server with Qdrant Edge."""

import asyncio
from datetime import UTC, datetime

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditIndex
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import DENSE, LEXICAL, VectorStore
from skillbus.vectors.datasets import KNOWLEDGE

from .conftest import Running
from .fake_embedder import FakeEmbedder
from .fake_learner import FakeLearner, item, named, open_fake_learner
from .knowledge_steps import versions
from .test_tools import put, tool

ARCHIVED, PENDING = KnowledgeStatus.ARCHIVED, KnowledgeStatus.PENDING


async def test_an_item_that_is_written_has_a_point_with_all_that_is_filtered_by(
    knowing: Running, learner: FakeLearner
) -> None:
    """knowledge-base.md § 手动创建知识条目."""
    one = item(
        "a",
        scope="/api/live/*",
        tags=["auth", "game-id"],
        source="manual",
        project="team",
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    await learner.write(one)
    await learner.until_heard_of(one)
    (point,) = await knowing.store.retrieve(KNOWLEDGE.alias, [named("a")], with_vectors=True)
    payload = dict(point.payload or {})
    assert len(payload.pop("content_hash")) == 32
    assert payload == {
        "project": "team",
        "item_id": named("a"),
        "version": 1,
        "type": "business_rule",
        "tags": ["auth", "game-id"],
        "source": "manual",
        "scope_fixed": "//api/live",
        "scope_above": ["//api/live", "//api", "/", ""],
        "valid_from": 1767225600.0,
        "valid_to": 253402300800.0,
    }
    assert isinstance(point.vector, dict)
    assert set(point.vector) == {DENSE, LEXICAL}


async def test_no_collection_is_made_before_there_is_something_to_put_into_it(
    knowing: Running, learner: FakeLearner
) -> None:
    audited = await knowing.bus.caller.call(AUDIT_INDEX, AuditIndex())
    assert (audited.knowledge, audited.knowledge_indexed, audited.differences) == (0, 0, ())
    assert await knowing.store.resolve_alias(KNOWLEDGE.alias) is None
    await learner.write(item("a"))
    await learner.until_heard_of(item("a"))
    assert await knowing.store.resolve_alias(KNOWLEDGE.alias) is not None


async def test_a_new_version_takes_the_place_of_the_old_one(knowing: Running, learner: FakeLearner) -> None:
    """knowledge-base.md § 更新知识条目."""
    await learner.write(item("a", "Before."))
    changed = item("a", "After.", version=2)
    await learner.write(changed)
    await learner.until_heard_of(changed)
    assert await versions(knowing.store) == {("default", named("a")): 2}


async def test_a_version_whose_texts_did_not_change_is_indexed_as_that_version(
    knowing: Running, learner: FakeLearner
) -> None:
    one = item("a")
    await learner.write(one)
    await learner.until_heard_of(one)
    again = one.model_copy(update={"version": 2, "owner": "someone"})
    await learner.write(again)
    await learner.until_heard_of(again)
    assert await versions(knowing.store) == {("default", named("a")): 2}


async def test_an_archived_item_has_no_point_and_the_learner_hears_at_which_version(
    knowing: Running, learner: FakeLearner
) -> None:
    """knowledge-base.md § 删除知识条目."""
    one, other = item("a"), item("b")
    await learner.write(one, other)
    await learner.until_heard_of(one, other)
    archived = item("a", version=2, status=ARCHIVED)
    await learner.write(archived)
    await learner.until_heard_of(archived)
    assert await versions(knowing.store) == {("default", named("b")): 1}


async def test_a_pending_item_has_a_point_once_it_is_approved(knowing: Running, learner: FakeLearner) -> None:
    """knowledge-base.md § 审核待确认知识, § 拒绝无效知识."""
    pending, rejected = item("a", status=PENDING), item("b", status=PENDING)
    await learner.write(pending, rejected)
    await learner.until_heard_of(pending, rejected)
    assert await versions(knowing.store) == {}
    approved, archived = item("a", version=2), item("b", version=2, status=ARCHIVED)
    await learner.write(approved, archived)
    await learner.until_heard_of(approved, archived)
    assert await versions(knowing.store) == {("default", named("a")): 2}


async def test_events_that_come_twice_or_late_change_nothing(
    knowing: Running, learner: FakeLearner, embedder: FakeEmbedder
) -> None:
    first, second, third = item("a", "One."), item("a", "Two.", version=2), item("b", version=3, status=ARCHIVED)
    learner.has(second, third)
    await learner.tell(second)
    await learner.until_heard_of(second)
    embedded = embedder.embedded["aaaa"]
    await learner.tell(first)
    await learner.tell(second)
    await learner.tell(third, item("b"), item("gone"))
    await learner.until_heard_of(third)
    assert await versions(knowing.store) == {("default", named("a")): 2}
    assert embedder.embedded["aaaa"] == embedded


async def test_items_of_one_event_are_embedded_together(
    knowing: Running, learner: FakeLearner, embedder: FakeEmbedder
) -> None:
    items = [item(f"i{number}") for number in range(64)]
    await learner.write(*items)
    await learner.until_heard_of(*items)
    assert len(await versions(knowing.store)) == 64
    assert len(learner.heard) == 64
    assert len(learner.read) == 4  # twice, before and after, in two replies each


async def test_items_as_long_as_they_may_be_are_indexed(knowing: Running, learner: FakeLearner) -> None:
    learner.most = 5
    words = "".join(chr(0x4E00 + number % 20000) for number in range(31_000))
    items = [item(f"i{number}", words, tags=[f"{words[:90]}{tag}" for tag in range(50)]) for number in range(8)]
    await learner.write(*items)
    await learner.until_heard_of(*items)
    assert len(await versions(knowing.store)) == 8


async def test_an_item_that_changes_while_it_is_written_ends_as_the_record_has_it(
    knowing: Running, learner: FakeLearner, embedder: FakeEmbedder
) -> None:
    await learner.write(item("opens-the-index"))
    await learner.until_heard_of(item("opens-the-index"))
    embedder.held, embedder.going = {"aaaa"}, asyncio.Event()
    await learner.write(item("a"), item("b"))
    await eventually(lambda: asyncio.sleep(0, len(learner.read)), lambda reads: reads >= 3)
    last = item("a", version=2, status=ARCHIVED), item("b", "Other.", version=2)
    learner.has(*last)
    embedder.going.set()
    await learner.until_heard_of(*last)
    found = await versions(knowing.store)
    assert found == {("default", named("opens-the-index")): 1, ("default", named("b")): 2}


async def test_without_a_learner_tools_are_indexed_and_knowledge_follows_when_it_comes(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder
) -> None:
    async with open_indexer(bus, settings, store):
        assert (await put(bus, tool("t"))).indexed
        assert await store.resolve_alias(KNOWLEDGE.alias) is None
        fake = FakeLearner(bus)
        fake.has(item("a"), item("b", status=PENDING))
        async with open_fake_learner(bus, fake):
            await fake.until_heard_of(item("a"), wait_s=10)
            assert await versions(store) == {("default", named("a")): 1}


async def test_a_learner_that_is_away_when_items_change_is_asked_again(knowing: Running, learner: FakeLearner) -> None:
    learner.down = True
    one = item("a")
    await learner.write(one)
    await eventually(lambda: asyncio.sleep(0, learner.refused), lambda refused: refused > 0)
    assert learner.heard == []
    learner.down = False
    await learner.until_heard_of(one)


async def test_what_nobody_was_told_of_is_mended_at_the_next_start(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder, learner: FakeLearner
) -> None:
    kept, changed, archived = item("kept"), item("changed"), item("archived")
    async with open_indexer(bus, settings, store):
        await learner.write(kept, changed, archived)
        await learner.until_heard_of(kept, changed, archived)
    learner.indexed.clear()
    now = item("changed", "Other.", version=2), item("archived", version=2, status=ARCHIVED), item("new")
    learner.has(*now)
    embedded = embedder.embedded["aaaa"]
    async with open_indexer(bus, settings, store):
        await learner.until_heard_of(kept, *now)
    assert await versions(store) == {
        ("default", named("kept")): 1,
        ("default", named("changed")): 2,
        ("default", named("new")): 1,
    }
    texts_of_two_items = 4
    assert embedder.embedded["aaaa"] == embedded + texts_of_two_items


async def test_items_that_say_the_same_in_two_projects_are_two(knowing: Running, learner: FakeLearner) -> None:
    ours = item("ours", title="Says the same.", project="ours")
    theirs = item("theirs", title="Says the same.", project="theirs")
    await learner.write(ours, theirs)
    await learner.until_heard_of(ours, theirs)
    gone = item("ours", project="ours", version=2, status=ARCHIVED)
    await learner.write(gone)
    await learner.until_heard_of(gone)
    assert await versions(knowing.store) == {("theirs", named("theirs")): 1}


async def test_without_the_model_items_are_found_by_their_words_until_it_is_back(
    knowing: Running, learner: FakeLearner, embedder: FakeEmbedder
) -> None:
    """knowledge-base.md § 降级到TF-IDF."""
    await learner.write(item("opens-the-index"))
    await learner.until_heard_of(item("opens-the-index"))
    embedder.without_dense = {"aaaa"}
    await learner.write(item("a"))
    await learner.until_heard_of(item("a"))

    async def vectors() -> set[str]:
        (point,) = await knowing.store.retrieve(KNOWLEDGE.alias, [named("a")], with_vectors=True)
        return set(point.vector) if isinstance(point.vector, dict) else set()

    assert await vectors() == {LEXICAL}
    embedder.without_dense = set()
    await learner.write(item("b"))
    await eventually(vectors, lambda found: found == {DENSE, LEXICAL})
