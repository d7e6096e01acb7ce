"""The learner's composition root."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from skillbus.common.background import PeriodicJob, run_in_background
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import consume
from skillbus.common.bus.objects import open_object_store
from skillbus.common.chat.agent_chat import AgentChat
from skillbus.common.runner import StartError
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.resources import LEARNING_FILES
from skillbus.learner.adapters.index_events import BusItemAnnouncer, listen_to_index
from skillbus.learner.adapters.learning.bus_neighbours import BusNeighbours
from skillbus.learner.adapters.learning.child_extractor import EXTRACTION, ChildExtractor
from skillbus.learner.adapters.learning.job_files import BucketJobFiles
from skillbus.learner.adapters.learning.progress_feed import BusProgressFeed
from skillbus.learner.adapters.sql.finder_record import SqlCandidates
from skillbus.learner.adapters.sql.import_store import SqlImports
from skillbus.learner.adapters.sql.index_record import SqlIndexRecord, SqlOutbox
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.knowledge_reader import SqlKnowledgeReader
from skillbus.learner.adapters.sql.knowledge_store import SqlKnowledgeStore
from skillbus.learner.adapters.sql.learning.answer_cache import SqlAnswerCache
from skillbus.learner.adapters.sql.learning.item_proposer import SqlItemProposer
from skillbus.learner.adapters.sql.learning.job_record import SqlJobRecord
from skillbus.learner.adapters.sql.learning.review_store import SqlReviewStore
from skillbus.learner.adapters.sql.learning.source_switches import SqlSourceSwitches
from skillbus.learner.adapters.sql.project_store import SqlProjectStore
from skillbus.learner.adapters.sql.tables import SCHEMA
from skillbus.learner.adapters.sql.usage_store import SqlUsage
from skillbus.learner.domain.bulk import Importer, ItemExporter
from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.learner.domain.index.finder import CandidateFinder
from skillbus.learner.domain.index.index_feed import IndexFeed
from skillbus.learner.domain.index.index_waiter import IndexWaiter
from skillbus.learner.domain.index.outbox import OutboxRelay
from skillbus.learner.domain.item.knowledge_base import KnowledgeBase
from skillbus.learner.domain.item.listing import ItemBrowser
from skillbus.learner.domain.item.review_queue import ReviewQueue
from skillbus.learner.domain.learning.jobs import LearningJobs
from skillbus.learner.domain.learning.model_extraction import ModelLearning
from skillbus.learner.domain.learning.runner import JobParts, JobRunner, remove_left_folders
from skillbus.learner.domain.projects import Projects
from skillbus.learner.domain.usage import UsageTracker
from skillbus.learner.errors_on_the_wire import to_wire
from skillbus.learner.service import LearnerHandlers
from skillbus.learner.settings import LearnerSettings
from skillbus.sql.database import open_database
from skillbus.sql.errors import DatabaseUnavailableError

_RELAY_EVERY_S: Final = 5.0
"""The relay also runs after each write; the clock is for rows of other replicas and rows the stream refused."""
_REMOVE_EXPIRED_EVERY_S: Final = 3_600.0
_RETRY_WRITE_EVERY_S: Final = 5.0
"""Longest time that the learner reports itself unready after the database accepts writes again."""


@asynccontextmanager
async def open_learner(
    bus: Bus, settings: LearnerSettings, extraction: str = EXTRACTION
) -> AsyncGenerator[ServiceHealth]:
    """Run the learner on the bus. `extraction` is the package that reads the files of jobs.

    Raises:
        StartError: The database of the knowledge base cannot be opened.
    """
    async with AsyncExitStack() as stack:
        try:
            if settings.database_url is None:
                await asyncio.to_thread(settings.data.mkdir, parents=True, exist_ok=True)
            opened = await stack.enter_async_context(open_database(settings.record_url(), SCHEMA))
        except (DatabaseUnavailableError, OSError) as error:
            raise StartError(f"the knowledge base cannot be opened: {error}") from error
        database = KnowledgeDatabase(opened)
        waiter = IndexWaiter(settings.wait_indexed_s)
        relay = OutboxRelay(SqlOutbox(database), BusItemAnnouncer(bus))
        relaying = _build_job("relay_changes", relay.relay_changes, _RELAY_EVERY_S)
        usage = UsageTracker(SqlUsage(database), _now, timedelta(days=settings.keep_usage_days))
        reader, imports = SqlKnowledgeReader(database), SqlImports(database)
        learning, runners = await _build_learning(bus, settings, database, relaying.wake, extraction)
        handlers = LearnerHandlers(
            base=KnowledgeBase(SqlKnowledgeStore(database), reader, waiter, relaying.wake, _now),
            browser=ItemBrowser(reader),
            reviews=ReviewQueue(SqlReviewStore(database), waiter, relaying.wake, _now),
            projects=Projects(SqlProjectStore(database), _now),
            importer=Importer(imports, waiter, _now, relaying.wake),
            exporter=ItemExporter(imports, _now),
            finder=CandidateFinder(SqlCandidates(database), _now),
            feed=IndexFeed(SqlIndexRecord(database)),
            usage=usage,
            learning=learning,
            record=database,
        )
        health = ServiceHealth(SERVICE, (handlers.check_record,))
        removing = _build_job("remove_expired_usage", usage.remove_expired, _REMOVE_EXPIRED_EVERY_S)
        retrying = _build_job("retry_write", database.retry_write, _RETRY_WRITE_EVERY_S)
        await stack.enter_async_context(run_in_background(relaying, removing, retrying, *runners))
        await stack.enter_async_context(listen_to_index(bus, waiter))
        await stack.enter_async_context(consume(bus, handlers.subscriptions()))
        await stack.enter_async_context(serve_routes(bus, SERVICE, handlers.routes(), health, to_wire))
        yield health


async def _build_learning(
    bus: Bus, settings: LearnerSettings, database: KnowledgeDatabase, on_write: Callable[[], None], extraction: str
) -> tuple[LearningJobs, list[JobRunner]]:
    folder = settings.data.absolute() / "learning"
    await asyncio.to_thread(remove_left_folders, folder)
    record, feed = SqlJobRecord(database), BusProgressFeed(bus)
    files = BucketJobFiles(await open_object_store(bus, LEARNING_FILES))
    extractor = ChildExtractor(settings.learning_memory_mib * 2**20, settings.learning_cpu_s, extraction)
    lease = timedelta(seconds=settings.learning_lease_s)
    parts = JobParts(
        record=record,
        files=files,
        extractor=extractor,
        proposer=SqlItemProposer(database, on_write),
        neighbours=BusNeighbours(bus.caller),
        model=_build_model(bus, settings, database),
        feed=feed,
        now=_now,
        folder=folder,
        lease=lease,
        thresholds=settings.learning_thresholds,
    )
    runners = [JobRunner(parts) for _ in range(settings.learning_jobs_at_once)]

    def wake_runners() -> None:
        for runner in runners:
            runner.wake()

    return LearningJobs(record, SqlSourceSwitches(database), files, feed, _now, wake_runners), runners


def _build_model(bus: Bus, settings: LearnerSettings, database: KnowledgeDatabase) -> ModelLearning | None:
    if not settings.learning_model:
        return None
    return ModelLearning(
        AgentChat(bus.caller, settings.learning_model_timeout_s),
        SqlAnswerCache(database, _now),
        settings.learning_model,
        settings.learning_digest_tokens,
        settings.learning_budget_tokens,
    )


def _build_job(name: str, step: Callable[[], Awaitable[object]], every_s: float) -> PeriodicJob:
    return PeriodicJob({name: step}, every_s=every_s, postponed_by=(KnowledgeUnavailableError,))


def _now() -> datetime:
    return datetime.now(UTC)
