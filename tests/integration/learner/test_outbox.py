"""The outbox on SQLite and on PostgreSQL: nothing is lost and nothing is skipped, whoever is killed."""

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import func, select

from skillbus.common.background import PostponedError
from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.adapters.sql.index_record import SqlOutbox
from skillbus.learner.adapters.sql.tables import OUTBOX
from skillbus.learner.domain.index.outbox import OutboxRelay

from .knowledge import Knowledge, fetch, knowledge_on, open_knowledge


class FakeStream:
    """Keeps what it is told once by its identity, and may be slow, away, or kill who tells it."""

    def __init__(self) -> None:
        self.told: dict[str, list[KnowledgeRef]] = {}
        self.calls = 0
        self.away = False
        self.called, self.held = asyncio.Event(), asyncio.Event()
        self.held.set()

    async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        self.calls += 1
        self.called.set()
        if self.away:
            raise PostponedError("away")
        await self.held.wait()
        self.told.setdefault(identity, list(refs))

    def refs(self) -> list[tuple[str, int]]:
        return [(ref.id, ref.version) for refs in self.told.values() for ref in refs]


async def left(knowledge: Knowledge) -> int:
    return int((await fetch(knowledge, select(func.count()).select_from(OUTBOX)))[0][0])


async def test_what_was_written_is_told_in_its_order_and_then_gone(knowledge: Knowledge) -> None:
    made = [await knowledge.create(title=f"title {number}") for number in range(5)]
    stream = FakeStream()
    await OutboxRelay(SqlOutbox(knowledge.database), stream).relay_changes()
    assert stream.refs() == [(item.id, 1) for item in made]
    assert await left(knowledge) == 0


async def test_an_empty_outbox_tells_nothing(knowledge: Knowledge) -> None:
    stream = FakeStream()
    assert not await OutboxRelay(SqlOutbox(knowledge.database), stream).relay_changes()
    assert stream.calls == 0


async def test_what_the_stream_does_not_take_stays(knowledge: Knowledge) -> None:
    item = await knowledge.create()
    stream = FakeStream()
    relay = OutboxRelay(SqlOutbox(knowledge.database), stream)
    stream.away = True
    with pytest.raises(PostponedError):
        await relay.relay_changes()
    assert await left(knowledge) == 1
    stream.away = False
    await relay.relay_changes()
    assert stream.refs() == [(item.id, 1)]


async def test_a_relay_that_is_killed_between_telling_and_forgetting_tells_it_again_as_the_same(
    knowledge: Knowledge,
) -> None:
    item = await knowledge.create()
    stream = FakeStream()
    outbox = SqlOutbox(knowledge.database)

    class Killed(FakeStream):
        async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
            await stream.announce_change(project, refs, identity)
            raise asyncio.CancelledError

    killed = asyncio.create_task(OutboxRelay(outbox, Killed()).relay_changes())
    await asyncio.wait({killed})
    assert killed.cancelled()
    assert stream.refs() == [(item.id, 1)]
    assert await left(knowledge) == 1

    await OutboxRelay(outbox, stream).relay_changes()
    assert (stream.calls, stream.refs()) == (2, [(item.id, 1)])
    assert await left(knowledge) == 0


async def test_what_is_written_while_others_are_told_stays(knowledge: Knowledge) -> None:
    await knowledge.create(title="first")
    stream = FakeStream()
    stream.held.clear()
    relay = asyncio.create_task(OutboxRelay(SqlOutbox(knowledge.database), stream).relay_changes())
    async with asyncio.timeout(5):
        await stream.called.wait()
    second = await knowledge.create(title="second")  # nobody who writes waits for the stream
    stream.held.set()
    await relay
    assert await left(knowledge) == 1
    await OutboxRelay(SqlOutbox(knowledge.database), stream).relay_changes()
    assert stream.refs()[-1] == (second.id, 1)


async def test_replicas_that_relay_at_once_lose_nothing(knowledge: Knowledge, knowledge_url: str) -> None:
    made = [await knowledge.create(title=f"title {number}") for number in range(20)]
    stream = FakeStream()
    async with open_knowledge(knowledge_url) as other:
        relays = [OutboxRelay(SqlOutbox(replica.database), stream) for replica in (knowledge, other)]
        await asyncio.gather(*(relay.relay_changes() for relay in relays))
        for relay in relays:  # what one of them left to the other, which was done by then
            await relay.relay_changes()
    assert sorted(set(stream.refs())) == sorted((item.id, 1) for item in made)
    assert await left(knowledge) == 0


async def test_a_database_that_came_anew_tells_under_other_names(knowledge: Knowledge) -> None:
    stream = FakeStream()
    for replica in (knowledge, knowledge_on(knowledge.database)):
        await replica.create()
        await OutboxRelay(SqlOutbox(replica.database), stream).relay_changes()
    assert len(stream.told) == 2
