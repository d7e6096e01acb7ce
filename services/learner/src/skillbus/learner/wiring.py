"""The learner's composition root."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import consume
from skillbus.common.runner import StartError
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.learner import SERVICE
from skillbus.learner.adapters.bus_announcer import BusAnnouncer
from skillbus.learner.adapters.index_listener import listen_to_index
from skillbus.learner.adapters.sql.index.finder_record import SqlCandidates
from skillbus.learner.adapters.sql.index.index_record import SqlIndexRecord
from skillbus.learner.adapters.sql.index.outbox_store import SqlOutbox
from skillbus.learner.adapters.sql.item.import_store import SqlImports
from skillbus.learner.adapters.sql.item.knowledge_reader import SqlKnowledgeReader
from skillbus.learner.adapters.sql.item.knowledge_store import SqlKnowledgeStore
from skillbus.learner.adapters.sql.project.audit_log import SqlAuditLog
from skillbus.learner.adapters.sql.project.project_store import SqlProjectStore
from skillbus.learner.adapters.sql.record import SqlRecord
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.adapters.sql.usage.usage_store import SqlUsage
from skillbus.learner.domain.bulk.exporter import ItemExporter
from skillbus.learner.domain.bulk.importer import Importer
from skillbus.learner.domain.index.finder import CandidateFinder
from skillbus.learner.domain.index.index_feed import IndexFeed
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.index.outbox import Relay
from skillbus.learner.domain.item.browser import ItemBrowser
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.project.projects import Projects
from skillbus.learner.domain.recurring_task import Recurring, kept_up
from skillbus.learner.domain.usage.usage import Usage
from skillbus.learner.errors_on_the_wire import to_wire
from skillbus.learner.service.imports import ImportHandlers
from skillbus.learner.service.index import IndexHandlers
from skillbus.learner.service.items import ItemHandlers
from skillbus.learner.service.usage import UsageHandlers
from skillbus.learner.settings import LearnerSettings
from skillbus.sql.errors import DatabaseUnavailableError
from skillbus.sql.reads import Reads, open_reads
from skillbus.sql.schema import open_database

_RELAY_EVERY_S: Final = 5.0
"""Beside each change: what another replica left, or what the stream did not take."""
_FORGET_EVERY_S: Final = 3_600.0
_TRY_EVERY_S: Final = 5.0
"""While nothing can be written: how long the learner may still be called unready once it can."""


@asynccontextmanager
async def open_learner(bus: Bus, settings: LearnerSettings) -> AsyncGenerator[ServiceHealth]:
    """The learner on the bus.

    Raises:
        StartError: the database of the knowledge base cannot be opened.
    """
    async with AsyncExitStack() as stack:
        engine = await _record(stack, settings)
        waiting = IndexWaiter(settings.wait_indexed_s)
        relay = _relay(engine, bus)
        usage = Usage(SqlUsage(engine), _now, timedelta(days=settings.keep_usage_days))
        items, imports = _items(engine, waiting, relay.wake), _imports(engine, waiting, relay.wake)
        reads = await stack.enter_async_context(open_reads(engine))
        index, used = _index(engine, reads, waiting), UsageHandlers(usage)
        health = ServiceHealth(SERVICE, (items.record_answers,))
        routes = (*items.routes(), *imports.routes(), *index.routes(), *used.routes())
        forget = Recurring("forget_usage", usage.sweep, _FORGET_EVERY_S)
        again = Recurring("try_record", SqlRecord(engine).try_again, _TRY_EVERY_S)
        await stack.enter_async_context(kept_up((relay, forget, again)))
        await stack.enter_async_context(listen_to_index(bus, waiting.told))
        await stack.enter_async_context(consume(bus, (*index.subscriptions(), *used.subscriptions())))
        await stack.enter_async_context(serve_routes(bus, SERVICE, routes, health, to_wire))
        yield health


async def _record(stack: AsyncExitStack, settings: LearnerSettings) -> AsyncEngine:
    try:
        if settings.database_url is None:
            await asyncio.to_thread(settings.data.mkdir, parents=True, exist_ok=True)
        return await stack.enter_async_context(open_database(settings.record_url(), SCHEMA))
    except (DatabaseUnavailableError, OSError) as error:
        raise StartError(f"the knowledge base cannot be opened: {error}") from error


def _relay(engine: AsyncEngine, bus: Bus) -> Recurring:
    return Recurring("tell_changes", Relay(SqlOutbox(engine), BusAnnouncer(bus)).relay, _RELAY_EVERY_S)


def _items(engine: AsyncEngine, waiting: IndexWaiter, wrote: Callable[[], None]) -> ItemHandlers:
    store, reader = SqlKnowledgeStore(engine), SqlKnowledgeReader(engine)
    base = KnowledgeBase(store, reader, waiting, wrote, _now)
    projects = Projects(SqlProjectStore(engine), SqlAuditLog(engine), _now)
    return ItemHandlers(base, ItemBrowser(reader), projects, SqlRecord(engine))


def _imports(engine: AsyncEngine, waiting: IndexWaiter, wrote: Callable[[], None]) -> ImportHandlers:
    record = SqlImports(engine)
    return ImportHandlers(Importer(record, waiting, _now, wrote), ItemExporter(record, _now))


def _index(engine: AsyncEngine, reads: Reads, waiting: IndexWaiter) -> IndexHandlers:
    finder = CandidateFinder(SqlCandidates(reads), _now)
    return IndexHandlers(finder, IndexFeed(SqlIndexRecord(engine), waiting.told, _now))


def _now() -> datetime:
    return datetime.now(UTC)
