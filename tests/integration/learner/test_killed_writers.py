"""A writer that is killed at any point leaves whole changes only."""

import asyncio
import random
import sys

from sqlalchemy import text

from .knowledge import Knowledge, fetch, open_knowledge

WRITE = """
import asyncio, sys
from datetime import UTC, datetime
from skillbus.contracts.learner.items import ArchiveKnowledge, CreateKnowledge, RestoreKnowledge, UpdateKnowledge
from skillbus.learner.adapters.sql.knowledge_reader import SqlKnowledgeReader
from skillbus.learner.adapters.sql.knowledge_store import SqlKnowledgeStore
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.sql.database import open_database

async def life(base, name):
    number = 0
    while True:
        number += 1
        draft = CreateKnowledge(type="business_rule", title=name, content="x", tags=("a", "b"), idempotency_key=f"{name} {number}")
        item = (await base.create_item(draft)).item
        await base.update_item(UpdateKnowledge(id=item.id, content="y", tags=("b", "c")))
        await base.archive_item(ArchiveKnowledge(id=item.id))
        await base.restore_item(RestoreKnowledge(id=item.id, version=1))
        print(item.id, flush=True)

async def main():
    async with open_database(sys.argv[1], SCHEMA) as opened:
        database = KnowledgeDatabase(opened)
        reader = SqlKnowledgeReader(database)
        base = KnowledgeBase(SqlKnowledgeStore(database), reader, IndexWaiter(0), lambda: None, lambda: datetime.now(UTC))
        await asyncio.gather(*(life(base, sys.argv[2] + str(n)) for n in range(3)))

asyncio.run(main())
"""  # noqa: E501 - a program of its own
DRIFT = {
    "an item whose newest version is not in its history": """
        SELECT count(*) FROM knowledge k LEFT JOIN knowledge_history h ON h.id = k.id AND h.version = k.version
        WHERE h.id IS NULL""",
    "a history that is not of all versions": """
        SELECT count(*) FROM knowledge k WHERE k.version <>
        (SELECT count(*) FROM knowledge_history h WHERE h.id = k.id AND h.version BETWEEN 1 AND k.version)""",
    "a version that is not announced once": """
        SELECT count(*) FROM knowledge_history h WHERE 1 <>
        (SELECT count(*) FROM knowledge_outbox o WHERE o.id = h.id AND o.version = h.version)""",
    "a version that is not in the audit once": """
        SELECT count(*) FROM knowledge_history h WHERE 1 <>
        (SELECT count(*) FROM knowledge_audit a WHERE a.id = h.id AND a.version = h.version)""",
    "build_announcements, or lines, of nothing": """
        SELECT (SELECT count(*) FROM knowledge_outbox) + (SELECT count(*) FROM knowledge_audit)
        - 2 * (SELECT count(*) FROM knowledge_history)""",
    "an item with more or fewer tags than two": """
        SELECT count(*) FROM knowledge k WHERE 2 <> (SELECT count(*) FROM knowledge_tags t WHERE t.id = k.id)""",
    "a key without its item, or an item without its key": """
        SELECT abs((SELECT count(*) FROM knowledge_idempotency) - (SELECT count(*) FROM knowledge))""",
}
KILLS = 2


async def drift(knowledge: Knowledge) -> dict[str, int]:
    found = {name: (await fetch(knowledge, text(query)))[0][0] for name, query in DRIFT.items()}
    return {name: count for name, count in found.items() if count}


async def test_killed_at_any_point_it_leaves_whole_changes_and_loses_none_that_it_told_of(knowledge_url: str) -> None:
    chance = random.Random(6)  # noqa: S311 - the same points in each run
    told = set[str]()
    async with asyncio.timeout(50):
        for kill in range(KILLS):
            writer = await asyncio.create_subprocess_exec(
                sys.executable, "-c", WRITE, knowledge_url, f"{kill} ", stdout=asyncio.subprocess.PIPE
            )
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 8)):
                told.add((await writer.stdout.readline()).decode().strip())
            await asyncio.sleep(chance.random() / 50)  # anywhere within a change
            writer.kill()
            await writer.communicate()
    async with open_knowledge(knowledge_url) as knowledge:
        assert await drift(knowledge) == {}
        versions = {row.id: row.version for row in await fetch(knowledge, text("SELECT id, version FROM knowledge"))}
    assert {item: versions[item] for item in told} == dict.fromkeys(told, 4)
