"""What the retriever keeps of a Qdrant server counts until the indexer announces a write to it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Never

import pytest
from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.contracts.indexer.index_writes import INDEX_WRITTEN, IndexWritten
from skillbus.contracts.indexer.tools import PUT_TOOLS, PutTools
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.announced_writes import AnnouncingVectorStore
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.adapters.watched_store import WatchedVectorStore, watch_writes
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import CollectionMissing, CollectionSpec, VectorStoreUnavailable, models, point_id

from ...models import OnlyModel, embedder_in
from .conftest import FailingStore, TopicModel

TOOLS, OTHERS = "tools-abc-v1", "knowledge-abc-v1"


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Both:
    """The store as the indexer writes it and as the retriever reads it, each on a connection of its own."""

    writer: AnnouncingVectorStore
    reader: WatchedVectorStore
    writing_bus: Bus
    reading_bus: Bus
    clock: Clock

    async def hear(self) -> None:
        """Wait until the reader has heard what was published so far: answers come in the order of publishing."""
        for bus in (self.writing_bus, self.reading_bus):
            await confirm_subscriptions(bus.client)  # what was published before is delivered too


@pytest.fixture
async def both(bus: Bus, bus_settings: BusSettings, store: FailingStore) -> AsyncGenerator[Both]:
    clock = Clock()
    async with (
        open_bus(bus_settings, "retriever", CollectorRegistry()) as reading_bus,
        watch_writes(store, reading_bus.client, clock) as reader,
    ):
        writer = AnnouncingVectorStore(store, bus.client)
        for name in (TOOLS, OTHERS):
            await writer.ensure_collection(name, CollectionSpec(dim=3))
        yield Both(writer, reader, bus, reading_bus, clock)


def point(name: str) -> models.PointStruct:
    return models.PointStruct(point_id(name), {"dense": [1.0, 0.0, 0.0]}, {"project": "default"})


async def write(both: Both) -> None:
    await both.writer.upsert(TOOLS, [point("a")])


async def delete(both: Both) -> None:
    await both.writer.delete(TOOLS, [point_id("a")])


async def delete_collection(both: Both) -> None:
    await both.writer.delete_collection(TOOLS)


@pytest.mark.parametrize("change", [write, delete, delete_collection])
async def test_each_write_changes_the_revision_of_its_collection_and_of_no_other(
    both: Both, change: Callable[[Both], Awaitable[None]]
) -> None:
    before = [both.reader.get_revision(name) for name in (TOOLS, OTHERS)]

    await change(both)
    await both.hear()
    meanwhile = both.reader.get_revision(TOOLS)
    both.clock.now += 1.0

    assert meanwhile is None  # copies of a cluster may lag
    assert None not in before
    assert both.reader.get_revision(TOOLS) not in (None, before[0])
    assert both.reader.get_revision(OTHERS) == before[1]


async def test_a_write_that_failed_counts_too(both: Both) -> None:
    before = both.reader.get_revision("absent")

    with pytest.raises(CollectionMissing):
        await both.writer.upsert("absent", [point("a")])
    await both.hear()
    both.clock.now += 1.0

    assert both.reader.get_revision("absent") != before


async def test_a_write_that_cannot_be_announced_fails_and_one_that_failed_keeps_its_error(both: Both) -> None:
    await both.writing_bus.client.close()

    with pytest.raises(VectorStoreUnavailable, match="could not be announced"):
        await write(both)
    with pytest.raises(CollectionMissing):
        await both.writer.upsert("absent", [point("a")])


async def test_a_revision_stands_for_a_minute_at_most(both: Both) -> None:
    before = both.reader.get_revision(TOOLS)
    both.clock.now += 60.0
    assert both.reader.get_revision(TOOLS) != before


async def test_an_announcement_arrives_before_what_is_published_after_it(both: Both, bus: Bus) -> None:
    """As the reply to the request that wrote, and each search that is sent after it."""
    later = await both.reading_bus.client.subscribe("later")
    await confirm_subscriptions(both.reading_bus.client)
    for number in range(100):
        before = both.reader.get_revision(TOOLS)
        await both.writer.upsert(TOOLS, [point(str(number))])
        await bus.client.publish("later", b"")
        await later.next_msg(timeout=5)
        assert both.reader.get_revision(TOOLS) is None
        both.clock.now += 1.0
        assert both.reader.get_revision(TOOLS) != before


async def test_an_announcement_is_of_the_documented_form(both: Both, bus: Bus) -> None:
    heard = await bus.client.subscribe(INDEX_WRITTEN.pattern)
    await write(both)
    message = await heard.next_msg(timeout=5)
    assert message.subject == INDEX_WRITTEN.subject(TOOLS)
    assert IndexWritten.model_validate_json(message.data) == IndexWritten(collection=TOOLS)


async def test_a_search_finds_each_tool_that_was_put_before_it_and_asks_nothing_twice(
    both: Both, bus: Bus, store: FailingStore, settings: IndexerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse_query(*_: object) -> Never:
        raise AssertionError("the answer was not kept")

    async def search() -> list[str]:
        found = await bus.caller.call(SEARCH_TOOLS, SearchTools(query="play a song", threshold=0.0))
        return sorted(hit.id for hit in found.results)

    async def put(number: int) -> None:
        tool: JsonValue = {"id": f"mcp:lab/{number}", "name": f"t{number}", "description": "a song"}
        await bus.caller.call(PUT_TOOLS, PutTools(tools=(tool,), source="mcp:lab"))

    async with (
        open_embedder(bus, embedder_in(settings.data), OnlyModel(TopicModel())),
        open_indexer(bus, settings, both.writer),
        open_retriever(both.reading_bus, RetrieverSettings(), both.reader),
    ):
        for number in range(5):
            await put(number)
            expected = [f"mcp:lab/{n}" for n in range(number + 1)]
            assert await search() == expected
            both.clock.now += 1.0
            assert await search() == expected
            with monkeypatch.context() as patch:
                patch.setattr(store.inner, "query", refuse_query)
                assert await search() == expected
