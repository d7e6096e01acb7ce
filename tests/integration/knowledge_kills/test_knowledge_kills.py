"""nats-server, learner, indexer and vector store are killed at random points of a load of writes.

No acknowledged write is lost, no write is there in part, and record and index agree at the end.

The default is six kills; `SKILLBUS_KILLS` sets another number, and 100 take some minutes. `SKILLBUS_KILLS_SEED` chooses
other points. `pytest -s` shows the figures.
"""

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest
import structlog

from skillbus.common.bus.codec import decode
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.testing import eventually
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.dead_letters import ListDeadLetters
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditIndex, IndexAudited
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KnowledgeChanged
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.resources import EVENTS
from skillbus.vectors import open_vector_store

from ..indexer.knowledge_steps import versions
from .ledger import Ledger
from .load import search, write_all
from .record import Record, Recorded, open_record
from .world import START_S, Victim, World, open_world

KILLS = int(os.environ.get("SKILLBUS_KILLS", "6"))
SEED = int(os.environ.get("SKILLBUS_KILLS_SEED", "12"))
"""With this seed the last of six kills is the index, which reconciles at start. Other seeds may settle 30 s later."""
MOST_BETWEEN = 40
"""Acknowledged writes from one kill to the next."""
MOST_DELAY_S = 0.05
SETTLED_S = 90.0
"""Messages that a killed process had fetched are delivered again after 30 s, and that delivery may fail too."""
SEARCHES_AT_ONCE = 8

log = structlog.get_logger(__name__)


async def kill_at_random(world: World, ledger: Ledger, chance: Random) -> None:
    """Kill all processes in random order, again and again; often while the process killed before still starts."""
    victims = [victim for _ in range(KILLS // len(Victim) + 1) for victim in chance.sample(list(Victim), len(Victim))]
    for victim in victims[:KILLS]:
        await ledger.until(ledger.answered + chance.randrange(1, MOST_BETWEEN), START_S)
        await asyncio.sleep(chance.uniform(0, MOST_DELAY_S))
        await world.kill(victim)
        if chance.random() < 0.75:
            await world.until_ready()


async def audited(world: World) -> IndexAudited | None:
    try:
        return await world.bus.caller.call(AUDIT_INDEX, AuditIndex(), timeout_s=30)
    except RequestError:
        return None


def agreed(said: IndexAudited | None) -> bool:
    return said is not None and not said.differences and said.knowledge_problem is None


def all_indexed(items: dict[str, Recorded]) -> bool:
    """Return whether the learner knows that the index has each active item."""
    return all(one.indexed_version == one.version for one in items.values() if one.status is KnowledgeStatus.ACTIVE)


async def settled(world: World, record: Record) -> IndexAudited:
    """Wait until all changes are published and record and index agree."""
    await world.until_ready()
    await eventually(record.untold, lambda rows: rows == 0, SETTLED_S)
    await eventually(record.items, all_indexed, SETTLED_S)
    said = await eventually(lambda: audited(world), agreed, SETTLED_S)
    assert said is not None
    return said


async def told(world: World) -> dict[str, int]:
    """Return the newest version of each item that the learner published; `Gossip` publishes to another subject."""
    newest = dict[str, int]()
    subject = KNOWLEDGE_CHANGED.subject("default")
    heard = await world.bus.jetstream.subscribe(subject, stream=EVENTS.name, ordered_consumer=True)
    left = 1
    while left:
        message = await heard.next_msg(timeout=5)
        left = message.metadata.num_pending
        for ref in decode(KnowledgeChanged, message.data).items:
            newest[ref.id] = max(ref.version, newest.get(ref.id, 0))
    await heard.unsubscribe()
    return newest


async def assert_nothing_is_lost(ledger: Ledger, record: Record) -> None:
    items, history = await record.items(), await record.versions()
    for item, said in ledger.said.items():
        newest, _ = ledger.newest(item)
        assert {version: history[item][version] for version in said} == said
        assert newest <= items[item].version <= newest + ledger.unsure[item]
    for batch in ledger.batches.values():
        assert len({items[item].version for item in batch}) == 1


async def wrongly_found(world: World, items: dict[str, Recorded]) -> list[tuple[str, Recorded]]:
    """Return active items that are not the first hit of their word, and others that are found."""
    at_once = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def wrong(item: str, recorded: Recorded) -> bool:
        async with at_once:
            found = await search(world.bus, recorded.title)
        return found[:1] != [item] if recorded.status is KnowledgeStatus.ACTIVE else item in found

    answers = await asyncio.gather(*(wrong(item, recorded) for item, recorded in items.items()))
    return [one for one, is_wrong in zip(items.items(), answers, strict=True) if is_wrong]


@pytest.mark.timeout(240 + 10 * KILLS)
async def test_whatever_is_killed_while_knowledge_is_written_nothing_is_lost_and_no_ghost_stays(tmp_path: Path) -> None:
    ledger, chance = Ledger(), Random(SEED)  # noqa: S311 - the same in each run
    async with open_world(tmp_path, wait_indexed_s=0.2) as world, open_record(world.database) as record:
        async with asyncio.TaskGroup() as writing:
            writing.create_task(write_all(world.bus, ledger, SEED))
            await kill_at_random(world, ledger, chance)
            ledger.over = True
        begun = time.monotonic()
        said = await settled(world, record)
        items = await record.items()
        log.info(
            "settled",
            killed=world.killed,
            ended_alone={victim: one.ended_alone for victim, one in world.services.items()},
            acknowledged=ledger.answered,
            not_answered=ledger.unsure.total(),
            items=len(items),
            within_s=round(time.monotonic() - begun, 1),
        )
        active = {item: one for item, one in items.items() if one.status is KnowledgeStatus.ACTIVE}
        assert said.knowledge == said.knowledge_indexed == len(active)
        assert await record.halves() == {}
        await assert_nothing_is_lost(ledger, record)
        assert await told(world) == {item: one.version for item, one in items.items()}
        assert (ledger.ghosts, ledger.lost) == ([], [])
        assert await wrongly_found(world, items) == []
        assert (await DeadLetters(world.bus).list_page(ListDeadLetters())).total == 0
        assert sum(world.killed.values()) > KILLS // 2
    async with open_vector_store(None, tmp_path / "vectors") as store:
        assert await versions(store) == {("default", item): one.version for item, one in active.items()}
