"""A learner that is killed at any point under load: what it wrote is told in the end, and known to be indexed."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from skillbus.common.bus.connection import Bus, BusSettings
from skillbus.common.testing import eventually
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner import HEALTH
from skillbus.contracts.learner.index import LIST_KNOWLEDGE_DIGESTS, KnowledgeItemDigest, ListKnowledgeDigests
from skillbus.contracts.learner.items import CREATE_KNOWLEDGE, UPDATE_KNOWLEDGE, UpdateKnowledge
from skillbus.contracts.learner.knowledge import MAX_IDS, KnowledgeRef
from skillbus.contracts.message import Empty

from ...programs import Program, open_program
from .fake_index import open_fake_index
from .knowledge import draft

KILLS = 2
START_S = 20.0


@asynccontextmanager
async def learner_process(settings: BusSettings, database: str, folder: Path) -> AsyncGenerator[Program]:
    assert settings.user is not None
    assert settings.password is not None
    given = {
        "SKILLBUS_NATS_URL": settings.url,
        "SKILLBUS_NATS_USER": settings.user,
        "SKILLBUS_NATS_PASSWORD": settings.password.get_secret_value(),
        "SKILLBUS_LEARNER_DATA": str(folder),
        "SKILLBUS_LEARNER_DATABASE_URL": database,
        "SKILLBUS_LEARNER_WAIT_INDEXED_S": "0",
        "SKILLBUS_LOG_LEVEL": "ERROR",
    }
    async with open_program("-m", "skillbus.learner", output=folder / "learner.log", environment=given) as process:
        yield process


async def answers(bus: Bus) -> bool:
    try:
        return (await bus.caller.call(HEALTH, Empty(), timeout_s=0.5)).ready
    except RequestError:
        return False


async def write(bus: Bus, name: str) -> None:
    """Items with two versions each, for as long as somebody answers."""
    number = 0
    while True:
        number += 1
        try:
            made = await bus.caller.call(CREATE_KNOWLEDGE, draft(title=f"{name} {number}"), timeout_s=0.5)
            change = UpdateKnowledge(id=made.item.id, content=f"content {number}")
            await bus.caller.call(UPDATE_KNOWLEDGE, change, timeout_s=0.5)
        except RequestError:
            return


async def digests(bus: Bus) -> list[KnowledgeItemDigest]:
    items, after = list[KnowledgeItemDigest](), None
    while True:
        page = await bus.caller.call(LIST_KNOWLEDGE_DIGESTS, ListKnowledgeDigests(after=after))
        items += page.items
        if (after := page.next) is None:
            return items


async def test_what_a_killed_learner_wrote_is_told_and_known_to_be_indexed(
    bus: Bus, bus_settings: BusSettings, tmp_path: Path
) -> None:
    """SQLite alone: `test_killed_writers` shows for both databases that a killed writer leaves whole changes."""
    database_url = f"sqlite:///{tmp_path / 'knowledge.db'}"
    chance = random.Random(6)  # noqa: S311 - the same points in each run
    async with asyncio.timeout(100), open_fake_index(bus) as index:
        for kill in range(KILLS):
            async with learner_process(bus_settings, database_url, tmp_path) as process:
                await eventually(lambda: answers(bus), bool, START_S)
                writers = [asyncio.create_task(write(bus, f"{kill} {number}")) for number in range(3)]
                await asyncio.sleep(0.2 + chance.random())
                process.kill()
                await asyncio.gather(*writers)
        async with learner_process(bus_settings, database_url, tmp_path):
            await eventually(lambda: answers(bus), bool, START_S)
            written = {(one.id, one.version) for one in await digests(bus)}
            await eventually(index.refs, lambda told: written <= set(told))
            # What a killed one took from the stream comes again after 30 s; the indexer's reconciler says it sooner.
            refs = [KnowledgeRef(id=item, version=version) for item, version in sorted(written)]
            for at in range(0, len(refs), MAX_IDS):
                await index.has(refs[at : at + MAX_IDS])
            await eventually(lambda: digests(bus), lambda items: all(one.indexed for one in items))
    assert len(written) > KILLS
