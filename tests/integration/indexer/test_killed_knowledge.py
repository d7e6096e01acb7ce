"""An indexer that is killed again and again while knowledge is written ends with what the record has.

Four kills and 300 writes unless `SKILLBUS_TEST_KILLS` and `SKILLBUS_TEST_KILLED_ITEMS` say otherwise; 100 and 3,000
take some minutes.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditIndex, IndexAudited
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.standalone.nats_server import NatsServer
from skillbus.vectors import open_vector_store

from ...programs import Program
from .fake_embedder import FakeEmbedder
from .fake_learner import FakeLearner, ItemId, item, named, open_fake_learner
from .knowledge_steps import versions
from .test_killed_imports import a_process

KILLS = int(os.environ.get("SKILLBUS_TEST_KILLS", "4"))
WRITES = int(os.environ.get("SKILLBUS_TEST_KILLED_ITEMS", "300"))
SEED = 20261122
MOST_AT_ONCE = 16
MOST_DELAY_S = 0.05
SETTLED_S = 45.0
"""What a killed indexer had taken from the stream comes again after 30 s; the comparison at the start is quicker."""


@dataclass
class Load:
    """Items that are written, changed, archived and restored, always in the same way."""

    learner: FakeLearner
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - the same in each run
    left: int = WRITES

    async def write_some(self) -> None:
        changed = dict[ItemId, KnowledgeItem]()
        for _ in range(self.chance.randrange(1, MOST_AT_ONCE)):
            one = self._next()
            changed[one.project, one.id] = one
            self.learner.has(one)
        self.left -= len(changed)
        await self.learner.tell(*changed.values())

    def _next(self) -> KnowledgeItem:
        name = f"i{self.chance.randrange(WRITES // 3)}"
        known = self.learner.items.get(("default", named(name)))
        kinds = [KnowledgeStatus.ACTIVE] * 3 + [KnowledgeStatus.ARCHIVED, KnowledgeStatus.PENDING]
        version = known.version + 1 if known else 1
        return item(name, f"Says {self.chance.randrange(50)}.", version, status=self.chance.choice(kinds))


async def write_until_killed(load: Load, process: Program, kill_at: int, delay_s: float) -> None:
    """Write, and kill the process shortly after so many writes."""
    while load.left > kill_at:
        await load.write_some()
    await asyncio.sleep(delay_s)
    process.kill()
    await process.wait()


async def audit_until_settled(bus: Bus) -> IndexAudited:
    """Audit until the index has as many items as the record: the last removals may still be in flight."""
    async with asyncio.timeout(SETTLED_S):
        while True:
            audited = await bus.caller.call(AUDIT_INDEX, AuditIndex(), timeout_s=60)
            if audited.knowledge_indexed == audited.knowledge:
                return audited


@pytest.mark.timeout(180 + 15 * KILLS)
async def test_whenever_the_indexer_is_killed_the_index_ends_as_the_record_has_it(
    bus: Bus, nats_server: NatsServer, embedder: FakeEmbedder, tmp_path: Path
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - the same points in each run
    points = sorted((chance.randrange(1, WRITES) for _ in range(KILLS)), reverse=True)
    async with open_fake_learner(bus) as learner:
        load = Load(learner)
        for kill_at in points:
            async with a_process(nats_server, bus, tmp_path) as process:
                await write_until_killed(load, process, kill_at, chance.uniform(0, MOST_DELAY_S))
        async with a_process(nats_server, bus, tmp_path):
            while load.left > 0:
                await load.write_some()
            written = list(learner.items.values())
            active = [one for one in written if one.status is KnowledgeStatus.ACTIVE]
            await learner.until_heard_of(*active, wait_s=SETTLED_S)
            audited = await audit_until_settled(bus)
    expected = IndexAudited(
        catalogued=0, inactive=0, indexed=0, knowledge=len(active), knowledge_indexed=len(active), differences=()
    )
    assert audited == expected
    async with open_vector_store(None, tmp_path / "vectors") as store:
        assert await versions(store) == {(one.project, one.id): one.version for one in active}
