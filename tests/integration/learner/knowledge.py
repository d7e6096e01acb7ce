"""A knowledge base on a database, without a bus."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Executable, Row, text

from skillbus.contracts.learner.items import CreateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.knowledge_reader import SqlKnowledgeReader
from skillbus.learner.adapters.sql.knowledge_store import SqlKnowledgeStore
from skillbus.learner.adapters.sql.learning.review_store import SqlReviewStore
from skillbus.learner.adapters.sql.project_store import SqlProjectStore
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.item.listing import ItemBrowser
from skillbus.learner.domain.item.review_queue import ReviewQueue
from skillbus.learner.domain.projects import Projects
from skillbus.sql.database import connect_database, open_database

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


class Clock:
    """A second passes each time that it is asked, unless it is stopped."""

    def __init__(self) -> None:
        self.at = BEGIN
        self.step = timedelta(seconds=1)

    def __call__(self) -> datetime:
        self.at += self.step
        return self.at


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A replica."""

    database: KnowledgeDatabase
    base: KnowledgeBase
    reviews: ReviewQueue
    browser: ItemBrowser
    projects: Projects
    clock: Clock
    wrote: list[datetime]
    """When something was put into the outbox."""

    async def create(
        self, title: str = "直播电商接口需要 game-id", content: str = "缺少时返回 400。", **fields: object
    ) -> KnowledgeItem:
        request = draft(title=title, content=content, **fields)
        return (await self.base.create_item(request)).item


def draft(**fields: object) -> CreateKnowledge:
    given = {"type": "business_rule", "title": "a title", "content": "some content", **fields}
    return CreateKnowledge.model_validate(given)


def knowledge_on(database: KnowledgeDatabase) -> Knowledge:
    clock, wrote = Clock(), list[datetime]()
    reader = SqlKnowledgeReader(database)

    def note_write() -> None:
        wrote.append(clock.at)

    base = KnowledgeBase(SqlKnowledgeStore(database), reader, IndexWaiter(0), on_write=note_write, now=clock)
    reviews = ReviewQueue(SqlReviewStore(database), IndexWaiter(0), on_write=note_write, now=clock)
    projects = Projects(SqlProjectStore(database), clock)
    return Knowledge(database, base, reviews, ItemBrowser(reader), projects, clock, wrote)


async def fetch(knowledge: Knowledge, statement: Executable) -> Sequence[Row[Any]]:
    """All rows of a statement."""
    return await knowledge.database.read(lambda connection: connection.execute(statement).all())


async def execute(knowledge: Knowledge, statement: str) -> None:
    """Run a statement in a write transaction."""

    def work(connection: Connection) -> None:
        connection.execute(text(statement))

    await knowledge.database.write(work)


@asynccontextmanager
async def open_replicas(url: str, count: int) -> AsyncGenerator[list[Knowledge]]:
    """Replicas with connections of their own, on tables that are there."""
    databases = [connect_database(url) for _ in range(count)]
    try:
        yield [knowledge_on(KnowledgeDatabase(database)) for database in databases]
    finally:
        for database in databases:
            await database.close()


async def create_tables(url: str) -> None:
    async with open_database(url, SCHEMA):
        pass


@asynccontextmanager
async def open_knowledge(url: str) -> AsyncGenerator[Knowledge]:
    async with open_database(url, SCHEMA) as database:
        yield knowledge_on(KnowledgeDatabase(database))
