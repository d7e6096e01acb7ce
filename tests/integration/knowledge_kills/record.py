"""The record as its database holds it, and checks of its consistency."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.sql.database import Database, connect_database

from .ledger import Said, said_of

HALVES = {
    "an item whose newest version is not in its history": """
        SELECT count(*) FROM knowledge k LEFT JOIN knowledge_history h ON h.id = k.id AND h.version = k.version
        WHERE h.id IS NULL""",
    "a history with a gap, or beyond its item": """
        SELECT count(*) FROM knowledge k WHERE k.version <> (SELECT count(*) FROM knowledge_history h WHERE h.id = k.id)
        OR k.version <> (SELECT max(h.version) FROM knowledge_history h WHERE h.id = k.id)
        OR 1 <> (SELECT min(h.version) FROM knowledge_history h WHERE h.id = k.id)""",
    "a history without its item": """
        SELECT count(*) FROM knowledge_history h WHERE h.id NOT IN (SELECT id FROM knowledge)""",
    "an item that is not as its newest version": """
        SELECT count(*) FROM knowledge k JOIN knowledge_history h ON h.id = k.id AND h.version = k.version
        WHERE k.content <> json_extract(h.snapshot, '$.content') OR k.status <> json_extract(h.snapshot, '$.status')""",
    "a version that is not in the audit once": """
        SELECT count(*) FROM knowledge_history h WHERE 1 <>
        (SELECT count(*) FROM knowledge_audit a WHERE a.id = h.id AND a.version = h.version)""",
    "a line of the audit of nothing": """
        SELECT count(*) FROM knowledge_audit a WHERE a.id IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM knowledge_history h WHERE h.id = a.id AND h.version = a.version)""",
    "an item with other tags than it says": """
        SELECT count(*) FROM knowledge k WHERE json_array_length(k.tags) <>
        (SELECT count(*) FROM knowledge_tags t WHERE t.id = k.id)""",
    "a key without its item": """
        SELECT count(*) FROM knowledge_idempotency i WHERE i.id NOT IN (SELECT id FROM knowledge)""",
    "two items of one title": """
        SELECT count(*) - count(DISTINCT title) FROM knowledge""",
    "an index said to be ahead of the record": """
        SELECT count(*) FROM knowledge WHERE indexed_version > version""",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """An item in the record."""

    version: int
    title: str
    status: KnowledgeStatus
    indexed_version: int


@dataclass(frozen=True, slots=True)
class Record:
    """The database of a learner, read while the learner uses it."""

    database: Database

    async def halves(self) -> dict[str, int]:
        """Return the number of inconsistent rows for each check that fails."""
        found = {name: (await self._rows(query))[0][0] for name, query in HALVES.items()}
        return {name: count for name, count in found.items() if count}

    async def untold(self) -> int:
        """Return the number of rows in the outbox."""
        return int((await self._rows("SELECT count(*) FROM knowledge_outbox"))[0][0])

    async def items(self) -> dict[str, Recorded]:
        return {
            row.id: Recorded(row.version, row.title, KnowledgeStatus(row.status), row.indexed_version)
            for row in await self._rows("SELECT id, version, title, status, indexed_version FROM knowledge")
        }

    async def versions(self) -> dict[str, dict[int, Said]]:
        """Return all versions of all items."""
        found = dict[str, dict[int, Said]]()
        for row in await self._rows("SELECT id, version, snapshot FROM knowledge_history"):
            item = KnowledgeItem.model_validate_json(row.snapshot)
            found.setdefault(row.id, {})[row.version] = said_of(item)
        return found

    async def _rows(self, query: str) -> Sequence[Row[Any]]:
        return await self.database.read(lambda connection: connection.execute(text(query)).all())


@asynccontextmanager
async def open_record(url: str) -> AsyncGenerator[Record]:
    database = connect_database(url)
    try:
        yield Record(database)
    finally:
        await database.close()
