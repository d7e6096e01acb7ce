"""The record, the embedder and the statistics, as the search of knowledge reaches them over the bus."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import FindKnowledge, KnowledgeMatched
from skillbus.contracts.learner.usage import KNOWLEDGE_USED, AnsweredRequest
from skillbus.contracts.resources import EVENTS
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.relevance.knowledge_text import build_item_dense_texts
from skillbus.retriever.adapters.bus_items import BusItems
from skillbus.retriever.adapters.bus_record import BusRecord
from skillbus.retriever.adapters.bus_usage import BusUsage
from skillbus.retriever.domain.errors import RecordUnavailableError
from skillbus.retriever.domain.knowledge.ports import Looked
from skillbus.vectors.directions import mean_of

from ...knowledge_record import NOW, id_of, item
from ...models import OnlyModel, embedder_in
from .conftest import FailingStore, TopicModel
from .knowledge_world import KnowledgeWorld, learner, listening

REQUEST = SearchKnowledge(query="song", project="team-a", tags=("a",), all_tags=("b",), content_characters=10)
FINGERPRINT = TopicModel.spec.fingerprint


@pytest.fixture
def world(bus: Bus, store: FailingStore) -> KnowledgeWorld:
    return KnowledgeWorld(bus, store)


async def test_the_record_is_asked_again_for_what_did_not_fit_its_answer(world: KnowledgeWorld) -> None:
    items = [item(number, project="team-a", tags=("a", "b")) for number in range(300)]
    world.record.put(*items)
    world.record.page = 70
    async with learner(world):
        found = await BusRecord(world.bus.caller).shown(REQUEST, [one.id for one in items])
    assert {one.item.id for one in found} == {one.id for one in items}
    assert sorted(len(asked.ids) for asked in world.record.asked) == [44, 46, 116, 186, 256]


async def test_of_several_messages_one_asks_for_what_the_index_lacks_and_each_for_its_share_of_contents(
    world: KnowledgeWorld,
) -> None:
    items = [item(number, project="team-a", tags=("a", "b")) for number in range(300)]
    world.record.put(*items)
    world.record.put(item(300, project="team-a", tags=("a", "b")), indexed=False)
    world.record.page = 200
    async with learner(world):
        looked = Looked(tuple(one.id for one in items), 270, time.monotonic())
        matched = await BusRecord(world.bus.caller).matched(REQUEST, looked)
    assert {one.item.id for one in matched.items} == {id_of(number) for number in range(301)}
    assert {one.item.id for one in matched.items if one.content_left} == {id_of(number) for number in range(270, 300)}
    asked = sorted((len(asked.ids), asked.whole, asked.unindexed > 0) for asked in world.record.asked)
    assert asked == [(44, 14, False), (56, 56, False), (256, 256, True)]
    assert all(asked.candidates_age_s is not None for asked in world.record.asked)


async def test_the_record_is_told_all_that_is_asked_for(world: KnowledgeWorld) -> None:
    async with learner(world):
        record = BusRecord(world.bus.caller)
        await record.matched(REQUEST, Looked((id_of(1),), 1, time.monotonic() - 2))
        await record.shown(REQUEST, [id_of(1)])
    first, second = world.record.asked
    assert (first.project, first.tags, first.all_tags, first.ids) == ("team-a", ("a",), ("b",), (id_of(1),))
    assert first.unindexed > 0
    assert first.candidates_age_s == pytest.approx(2, abs=1)
    assert (second.ids, second.unindexed, second.candidates_age_s) == ((id_of(1),), 0, None)
    assert first.content_characters == 4_000  # what is scored by its text is scored by more than is shown


async def test_whose_items_count_is_asked_once_and_known_from_each_answer(world: KnowledgeWorld) -> None:
    world.record.parents = {"team-a": "all"}
    record, alone = BusRecord(world.bus.caller), REQUEST.model_copy(update={"inherit": False})
    async with learner(world):
        assert await record.projects(alone) == ("team-a",)
        assert world.record.asked == []
        assert [await record.projects(REQUEST) for _ in range(2)] == [("team-a", "all")] * 2
        assert len(world.record.asked) == 1
        world.record.parents = {"team-a": "others"}
        assert (await record.matched(REQUEST, Looked((), 0, time.monotonic()))).projects == ("team-a", "others")
        assert await record.projects(REQUEST) == ("team-a", "others")


async def test_nothing_is_asked_of_the_record_where_nothing_was_found(world: KnowledgeWorld) -> None:
    async with learner(world):
        assert await BusRecord(world.bus.caller).shown(REQUEST, []) == []
    assert world.record.asked == []


async def test_a_learner_that_is_not_there_or_does_not_answer_is_an_error(world: KnowledgeWorld) -> None:
    record = BusRecord(world.bus.caller, wait_s=0.2)
    with pytest.raises(RecordUnavailableError, match="No learner"):
        await record.projects(REQUEST)

    class Silent(KnowledgeWorld):
        async def find_knowledge(self, asked: FindKnowledge) -> KnowledgeMatched:
            await asyncio.sleep(1)
            return self.record.find(asked)

    async with learner(Silent(world.bus, world.store)):
        with pytest.raises(RecordUnavailableError, match="did not answer"):
            await record.shown(REQUEST, [id_of(1)])


async def test_a_learner_that_leaves_everything_is_not_asked_for_ever(world: KnowledgeWorld) -> None:
    world.record.put(item(1, project="team-a", tags=("a", "b")))
    world.record.page = 0
    async with learner(world):
        with pytest.raises(RecordUnavailableError):
            await BusRecord(world.bus.caller).shown(REQUEST, [id_of(1)])


async def test_what_the_learner_refuses_is_told_as_it_said(world: KnowledgeWorld) -> None:
    world.broken = RequestError(ErrorCode.OVERLOADED, "later")
    async with learner(world):
        with pytest.raises(RequestError) as caught:
            await BusRecord(world.bus.caller).projects(REQUEST)
    assert caught.value.code is ErrorCode.OVERLOADED


def _answered(number: int) -> AnsweredRequest:
    return AnsweredRequest(request_id=f"request-{number}", query="song", at=NOW)


async def _as_long_as_a_fact_takes(world: KnowledgeWorld) -> None:
    """Until one that is on its way is there, and another would be."""
    for _ in range(3):
        await world.bus.jetstream.stream_info(EVENTS.name)


async def test_uses_are_told_in_their_order_and_of_too_many_the_oldest_are_dropped(world: KnowledgeWorld) -> None:
    usage = BusUsage(world.bus, size=3, gather_s=60)
    with capture_logs() as logs:
        for number in range(5):
            usage.note("default", _answered(number))
    assert usage.dropped == 2
    assert [(log["log_level"], log["event"], log["first_request_id"]) for log in logs] == [
        ("warning", "knowledge_uses_dropped", "request-0"),
        ("warning", "knowledge_uses_dropped", "request-1"),
    ]
    async with listening(world):
        async with usage.running():
            pass
        told = await world.told(3)
    assert [used.request_id for used in told] == ["request-2", "request-3", "request-4"]


async def test_a_use_that_is_noted_while_others_are_told_is_told_too(world: KnowledgeWorld) -> None:
    usage = BusUsage(world.bus, size=100, gather_s=0)
    async with listening(world), usage.running():
        for number in range(3):
            usage.note("default", _answered(number))
            await world.told(number + 1)
    assert [used.request_id for used in world.used] == ["request-0", "request-1", "request-2"]
    stream = await world.bus.jetstream.stream_info(EVENTS.name, subjects_filter=KNOWLEDGE_USED.pattern)
    assert sum((stream.state.subjects or {}).values()) == len(world.facts) == 3


async def test_uses_of_a_project_that_come_one_after_the_other_are_told_together(world: KnowledgeWorld) -> None:
    usage = BusUsage(world.bus, size=100, gather_s=0.5)
    async with listening(world), usage.running():
        for number in range(6):
            usage.note("team-a" if number % 3 else "team-b", _answered(number))
            await _as_long_as_a_fact_takes(world)
        assert not world.facts
        await world.told(6)
    together = [(fact.project, [one.request_id[-1] for one in fact.requests]) for fact in world.facts]
    assert together == [("team-b", ["0", "3"]), ("team-a", ["1", "2", "4", "5"])]


async def test_uses_wait_no_longer_when_half_of_what_is_held_waits(world: KnowledgeWorld) -> None:
    usage = BusUsage(world.bus, size=10, gather_s=60)
    async with listening(world):
        async with usage.running():
            for number in range(6):
                usage.note("default", _answered(number))
            await world.told(6)
            usage.note("default", _answered(6))
            await _as_long_as_a_fact_takes(world)
            usage.note("default", _answered(7))
        await world.told(8)
    assert [len(fact.requests) for fact in world.facts] == [6, 2]


class CountingModel(TopicModel):
    """Counts the texts that it embeds; documents wait while it is `busy`."""

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.free = threading.Event()
        self.free.set()

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        if role is TextRole.DOCUMENT:
            self.free.wait(5)
            self.documents.extend(texts)
        return super().embed(texts, role)


@asynccontextmanager
async def _items(bus: Bus, settings: IndexerSettings, model: CountingModel) -> AsyncGenerator[BusItems]:
    async with open_embedder(bus, embedder_in(settings.data), OnlyModel(model)):
        yield BusItems(bus.caller, size=2)


LONG = item(1, "A song", content="Rain comes. " * 60 + "A room in a hotel. " * 60, scope="/api/live", tags=("file",))


async def test_an_item_is_embedded_as_the_index_does_it(bus: Bus, settings: IndexerSettings) -> None:
    model = CountingModel()
    async with _items(bus, settings, model) as items:
        vectors = await items.embed([LONG, item(2, "rain")], FINGERPRINT)
    texts = build_item_dense_texts(LONG.title, LONG.content)
    assert set(model.documents) == {*texts, "rain"}
    dense = vectors[LONG.digest].dense
    assert dense is not None
    assert dense == pytest.approx(mean_of(TopicModel().embed(texts, TextRole.DOCUMENT)), abs=1e-6)
    assert len(vectors[LONG.digest].indices) == len(vectors[LONG.digest].values) > 5


async def test_an_item_is_embedded_once_as_long_as_it_is_the_same(bus: Bus, settings: IndexerSettings) -> None:
    model = CountingModel()
    async with _items(bus, settings, model) as items:
        first = await items.embed([LONG], FINGERPRINT)
        model.documents.clear()
        again = await items.embed([LONG, LONG.model_copy(update={"digest": "other", "title": "hotel"})], FINGERPRINT)
    assert again[LONG.digest] is first[LONG.digest]
    assert model.documents == ["hotel"]  # its passages are in the embedder's own cache


async def test_an_item_that_the_model_is_too_busy_for_comes_with_its_words(bus: Bus, settings: IndexerSettings) -> None:
    model = CountingModel()
    async with _items(bus, settings, model) as items:
        many = [LONG, *(item(number) for number in range(10, 20))]
        model.free.clear()
        try:
            with capture_logs() as logs:
                late = (await items.embed(many, FINGERPRINT))[LONG.digest]
        finally:
            model.free.set()
        assert late.dense is None
        assert len(late.indices) > 5
        assert [log["event"] for log in logs if log["log_level"] == "warning"][-1:] == ["knowledge_searched_by_words"]
        in_time = (await items.embed([LONG], FINGERPRINT))[LONG.digest]
        assert in_time.dense is not None


async def test_without_a_model_items_come_with_their_words(bus: Bus, settings: IndexerSettings) -> None:
    model = CountingModel()
    async with _items(bus, settings, model) as items:
        vectors = await items.embed([LONG], None)
    assert vectors[LONG.digest].dense is None
    assert len(vectors[LONG.digest].indices) > 5
    assert model.documents == []


async def test_more_items_than_a_message_takes_are_embedded_in_several(bus: Bus, settings: IndexerSettings) -> None:
    many = [item(number, f"song {number}", content="Rain comes.\n" * 300) for number in range(120)]
    async with _items(bus, settings, CountingModel()) as items:
        vectors = await items.embed(many, None)
        few = await items.embed(many[:8], FINGERPRINT)
    assert len(vectors) == 120
    assert all(len(one.indices) > 1 for one in vectors.values())
    assert all(one.dense is not None for one in few.values())
