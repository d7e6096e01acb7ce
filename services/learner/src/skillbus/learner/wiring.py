"""The learner's composition root."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.common.bus.connection import Bus
from skillbus.common.health import ServiceHealth
from skillbus.common.runner import StartError
from skillbus.common.serving import serve
from skillbus.contracts.knowledge import SERVICE
from skillbus.learner.adapters.sql.audit_log import SqlAuditLog
from skillbus.learner.adapters.sql.knowledge_reader import SqlKnowledgeReader
from skillbus.learner.adapters.sql.knowledge_store import SqlKnowledgeStore
from skillbus.learner.adapters.sql.project_store import SqlProjectStore
from skillbus.learner.adapters.sql.record import SqlRecord
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.domain.browsing import Browsing
from skillbus.learner.domain.knowledge_base import KnowledgeBase
from skillbus.learner.domain.projects import Projects
from skillbus.learner.domain.waiting import IndexWaiting
from skillbus.learner.errors_on_the_wire import to_wire
from skillbus.learner.service.items import ItemHandlers
from skillbus.learner.settings import LearnerSettings
from skillbus.sql.errors import DatabaseUnavailableError
from skillbus.sql.schema import open_database


@asynccontextmanager
async def open_learner(bus: Bus, settings: LearnerSettings) -> AsyncGenerator[ServiceHealth]:
    """The learner on the bus.

    Raises:
        StartError: the database of the knowledge base cannot be opened.
    """
    async with AsyncExitStack() as stack:
        engine = await _record(stack, settings)
        waiting = IndexWaiting(settings.wait_indexed_s)
        items = _items(engine, waiting)
        health = ServiceHealth(SERVICE, (items.record_answers,))
        await stack.enter_async_context(serve(bus, SERVICE, items.routes(), health, to_wire))
        yield health


async def _record(stack: AsyncExitStack, settings: LearnerSettings) -> AsyncEngine:
    try:
        if settings.database_url is None:
            await asyncio.to_thread(settings.data.mkdir, parents=True, exist_ok=True)
        return await stack.enter_async_context(open_database(settings.record_url(), SCHEMA))
    except (DatabaseUnavailableError, OSError) as error:
        raise StartError(f"the knowledge base cannot be opened: {error}") from error


def _items(engine: AsyncEngine, waiting: IndexWaiting) -> ItemHandlers:
    store, reader = SqlKnowledgeStore(engine), SqlKnowledgeReader(engine)
    base = KnowledgeBase(store, reader, waiting, wrote=lambda: None, now=_now)
    projects = Projects(SqlProjectStore(engine), SqlAuditLog(engine), _now)
    return ItemHandlers(base, Browsing(reader), projects, SqlRecord(engine))


def _now() -> datetime:
    return datetime.now(UTC)
