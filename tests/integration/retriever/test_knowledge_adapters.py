"""The record and the statistics, as the knowledge search reaches them over the bus."""

import asyncio

import pytest
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import FindKnowledge, KnowledgeMatched
from skillbus.contracts.learner.usage import KNOWLEDGE_USED, AnsweredRequest
from skillbus.contracts.resources import EVENTS
from skillbus.contracts.retriever.knowledge_search import SearchKnowledge
from skillbus.retriever.adapters.bus_record import BusRecord
from skillbus.retriever.adapters.bus_usage import BusUsage
from skillbus.retriever.domain.errors import RecordUnavailableError

from ...knowledge_record import NOW, id_of, item
from .conftest import FailingStore
from .knowledge_world import KnowledgeWorld, learner, listening

REQUEST = SearchKnowledge(query="song", project="team-a", tags=("a",), all_tags=("b",), content_characters=10)


@pytest.fixture
def world(bus: Bus, store: FailingStore) -> KnowledgeWorld:
    return KnowledgeWorld(bus, store)


async def test_the_record_is_asked_again_about_candidates_that_did_not_fit_its_reply(world: KnowledgeWorld) -> None:
    items = [item(number, project="team-a", tags=("a", "b")) for number in range(300)]
    world.record.put(*items)
    world.record.page = 70
    async with learner(world):
        matched = await BusRecord(world.bus.caller).confirm_candidates(REQUEST, [one.id for one in items])
    assert {one.item.id for one in matched.items} == {one.id for one in items}
    assert sorted(len(asked.ids) for asked in world.record.asked) == [44, 46, 116, 186, 256]


async def test_the_record_gets_the_filters_of_the_request(world: KnowledgeWorld) -> None:
    world.record.put(item(2, project="team-a"), indexed=False)
    async with learner(world):
        matched = await BusRecord(world.bus.caller).confirm_candidates(REQUEST, [id_of(1)])
    (asked,) = world.record.asked
    assert (asked.project, asked.tags, asked.all_tags, asked.ids) == ("team-a", ("a",), ("b",), (id_of(1),))
    assert asked.content_characters == 4_000  # terms are looked for in more than is shown
    assert matched.index_behind == 1


async def test_the_effective_projects_are_those_of_the_last_reply(world: KnowledgeWorld) -> None:
    world.record.parents = {"team-a": "all"}
    record, alone = BusRecord(world.bus.caller), REQUEST.model_copy(update={"inherit": False})
    async with learner(world):
        assert record.recall_projects(REQUEST) == ("team-a",)
        for parent in ("all", "others"):
            world.record.parents = {"team-a": parent}
            assert (await record.confirm_candidates(REQUEST, ())).projects == ("team-a", parent)
            assert record.recall_projects(REQUEST) == ("team-a", parent)
        await record.confirm_candidates(alone, ())
    assert (record.recall_projects(alone), record.recall_projects(REQUEST)) == (("team-a",), ("team-a", "others"))


async def test_a_learner_that_is_not_there_or_does_not_answer_is_an_error(world: KnowledgeWorld) -> None:
    record = BusRecord(world.bus.caller, wait_s=0.2)
    with pytest.raises(RecordUnavailableError, match="No learner"):
        await record.confirm_candidates(REQUEST, ())

    go_on = asyncio.Event()

    class Silent(KnowledgeWorld):
        async def find_knowledge(self, asked: FindKnowledge) -> KnowledgeMatched:
            await go_on.wait()
            return self.record.find(asked)

    async with learner(Silent(world.bus, world.store)):
        with pytest.raises(RecordUnavailableError, match="did not answer"):
            await record.confirm_candidates(REQUEST, [id_of(1)])
        go_on.set()


async def test_a_learner_that_leaves_everything_is_not_asked_for_ever(world: KnowledgeWorld) -> None:
    world.record.put(item(1, project="team-a", tags=("a", "b")))
    world.record.page = 0
    async with learner(world):
        with pytest.raises(RecordUnavailableError):
            await BusRecord(world.bus.caller).confirm_candidates(REQUEST, [id_of(1)])


async def test_what_the_learner_refuses_is_told_as_it_said(world: KnowledgeWorld) -> None:
    world.broken = RequestError(ErrorCode.OVERLOADED, "later")
    async with learner(world):
        with pytest.raises(RequestError) as caught:
            await BusRecord(world.bus.caller).confirm_candidates(REQUEST, ())
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
