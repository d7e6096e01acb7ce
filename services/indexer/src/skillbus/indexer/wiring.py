"""Composition root of the indexer."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Generic
from uuid import uuid4

from skillbus.common.audit_log.reader import AuditLogReader
from skillbus.common.background import BackgroundTask, PeriodicJob, run_in_background
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.bus.events import Subscription, consume
from skillbus.common.bus.jetstream import check_jetstream
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import Route, route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer import skills as contract
from skillbus.contracts.indexer import tools as tools_contract
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    REPLAY_DEAD_LETTER,
)
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, ROLL_BACK, START_SWITCH
from skillbus.contracts.indexer.skills import APPROVE_NETWORK
from skillbus.contracts.indexer.tool_approval import SET_TOOL_APPROVAL
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, MEASURE_TOOLS
from skillbus.contracts.resources import (
    INDEXER_CHANGES,
    INDEXER_KNOWLEDGE,
    INDEXER_MODELS,
    INDEXER_UPLOADS,
    PACKAGES,
    SWITCHES,
    UPLOADS,
)
from skillbus.indexer.adapters.bus_announcer import IndexerAnnouncer
from skillbus.indexer.adapters.bus_embedder import BusModels
from skillbus.indexer.adapters.bus_knowledge import BusKnowledge
from skillbus.indexer.adapters.disk_folders import DiskFolders, watch_folders
from skillbus.indexer.adapters.knowledge_points import KnowledgePoints
from skillbus.indexer.adapters.kv_catalogue import KvSkills, KvTools
from skillbus.indexer.adapters.kv_listed_tools import KvListedTools
from skillbus.indexer.adapters.object_packages import IncomingObjects, ObjectPackages, ObjectUploads
from skillbus.indexer.adapters.points import PointBuilder
from skillbus.indexer.adapters.tool_points import ToolPoints
from skillbus.indexer.adapters.vector_collections import StoredCollections
from skillbus.indexer.domain.audit import CatalogueAuditor, IndexAuditor
from skillbus.indexer.domain.catalogue.entry import CatalogueEntries
from skillbus.indexer.domain.catalogue.functions import ToolDescriber
from skillbus.indexer.domain.catalogue.listing import CatalogueListing
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import EmbeddingModels, Entries, EntryT
from skillbus.indexer.domain.index.switch_decisions import Indexes, SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver, SwitchPorts, SwitchTask, SwitchTiming
from skillbus.indexer.domain.index.switch_record import Switches, SwitchRecord
from skillbus.indexer.domain.knowledge import KnowledgeEntries, KnowledgeFollower, KnowledgeReconciler
from skillbus.indexer.domain.skill.follower import SkillFollower, SkillStores
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.reconciler import FolderTask, SkillReconciler
from skillbus.indexer.domain.skill.uploads import Uploads
from skillbus.indexer.domain.tool.registry import ToolRegistry
from skillbus.indexer.errors_on_the_wire import to_wire
from skillbus.indexer.service import IndexerHandlers, IndexerListeners, ToolHandlers
from skillbus.indexer.settings import IndexerSettings
from skillbus.vectors import VectorStore

_RETRY_S: Final = (2.0, 5.0, 15.0, 30.0)
"""Delays before retries when the vector store, or a service that an index needs, is unavailable."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Dependencies of every index."""

    store: VectorStore
    switches: Switches
    models: EmbeddingModels
    announcer: IndexerAnnouncer
    settings: IndexerSettings


@dataclass(frozen=True, slots=True)
class _SwitchedIndex(Generic[EntryT]):
    """An index, and the parts that move it from model to model."""

    index: Index[EntryT]
    decisions: SwitchDecisions
    driver: SwitchDriver[EntryT]


@dataclass(frozen=True, slots=True)
class _Parts:
    handlers: IndexerHandlers
    tool_handlers: ToolHandlers
    listeners: IndexerListeners
    tasks: tuple[BackgroundTask, ...]


@asynccontextmanager
async def open_indexer(bus: Bus, settings: IndexerSettings, store: VectorStore) -> AsyncGenerator[ServiceHealth]:
    """Open the indexer on the bus. The caller closes `store`."""
    parts = await _build(bus, settings, store)
    health = ServiceHealth(
        SERVICE, (parts.handlers.check_vector_store, partial(check_jetstream, bus.client, bus.jetstream_api))
    )
    routes = _make_routes(parts.handlers, parts.tool_handlers, DeadLetters(bus), AuditLogReader(bus))
    listeners = parts.listeners
    subscriptions = [
        Subscription(INDEXER_UPLOADS, listeners.on_upload),
        Subscription(INDEXER_CHANGES, listeners.on_change),
        Subscription(INDEXER_MODELS, listeners.on_default_model),
        Subscription(INDEXER_KNOWLEDGE, listeners.on_knowledge_changed),
    ]
    async with (
        serve_routes(bus, SERVICE, routes, health, to_wire),
        consume(bus, subscriptions),
        run_in_background(*parts.tasks),
    ):
        yield health


async def _build(bus: Bus, settings: IndexerSettings, store: VectorStore) -> _Parts:
    def get_tools_job() -> PeriodicJob:
        return tools_job

    def get_knowledge_job() -> PeriodicJob:
        return knowledge_job

    def compare_knowledge_again() -> None:
        knowledge_job.retry()

    skills, tools, listed = KvSkills(bus), KvTools(bus), KvListedTools(bus)
    package_objects = await open_object_store(bus, PACKAGES)
    packages, folders, announcer = ObjectPackages(package_objects), DiskFolders(settings.data), IndexerAnnouncer(bus)
    await asyncio.to_thread(folders.prepare_folders)
    switches = KvRecords(bus, SWITCHES, SwitchRecord, damage_is_error=True)
    shared = _Shared(store, switches, BusModels(bus.caller), announcer, settings)
    tool_index = _open_index(shared, ToolPoints(bus.caller), CatalogueEntries(skills, tools), get_tools_job)
    stores = SkillStores(skills, packages, folders, tool_index.index, announcer)
    follower = SkillFollower(stores)
    installer = Installer(stores, follower, _now)
    reconciler = SkillReconciler(stores, installer, follower)

    record = BusKnowledge(bus.caller)
    entries = KnowledgeEntries(record)
    knowledge_index = _open_index(shared, KnowledgePoints(bus.caller), entries, get_knowledge_job)
    knowledge_follower = KnowledgeFollower(knowledge_index.index, record, announcer, compare_knowledge_again)
    knowledge_reconciler = KnowledgeReconciler(knowledge_index.index, record, knowledge_follower, announcer)

    steps = {
        "scan_folders": reconciler.scan_folders,
        "compare_index": reconciler.compare_index,
        "delete_unclaimed_packages": reconciler.delete_unclaimed_packages,
    }
    tools_job = PeriodicJob(steps, every_s=settings.reconcile_every_s, retry_s=_RETRY_S, postponed_by=(IndexerError,))
    knowledge_job = PeriodicJob(
        {"compare_knowledge": knowledge_reconciler.compare_index},
        every_s=settings.reconcile_every_s,
        retry_s=_RETRY_S,
        postponed_by=(IndexerError,),
    )
    listing = CatalogueListing(skills, tools, listed)
    indexes = Indexes((tool_index.decisions, knowledge_index.decisions))
    uploads = Uploads(ObjectUploads(await open_object_store(bus, UPLOADS)), installer, announcer)
    tool_audit = IndexAuditor(tool_index.index, tool_index.index.sync_entries)
    knowledge_audit = IndexAuditor(knowledge_index.index, knowledge_follower.follow_items, "knowledge_")
    auditor = CatalogueAuditor(skills, listed, tool_audit, knowledge_audit, packages, folders)
    incoming = IncomingObjects(package_objects)
    registry = ToolRegistry(tools, listed, tool_index.index, announcer, _now)
    return _Parts(
        handlers=IndexerHandlers(installer, listing, tool_index.index, incoming, folders, indexes),
        tool_handlers=ToolHandlers(registry, listing, ToolDescriber(skills, tools), installer, auditor),
        listeners=IndexerListeners(follower, uploads, indexes, knowledge_follower),
        tasks=(
            tools_job,
            knowledge_job,
            FolderTask(reconciler, lambda stop: watch_folders(folders, stop)),
            SwitchTask(tool_index.decisions, tool_index.driver),
            SwitchTask(knowledge_index.decisions, knowledge_index.driver, _RETRY_S),
        ),
    )


def _open_index(
    shared: _Shared, points: PointBuilder[EntryT], entries: Entries[EntryT], get_job: Callable[[], PeriodicJob]
) -> _SwitchedIndex[EntryT]:
    """Open an index. `get_job` returns the job that compares it with the record, which is made later."""

    def compare_again() -> None:
        get_job().retry()

    def compare_soon() -> None:
        get_job().wake()

    alias = points.layout.dataset.alias
    collections = StoredCollections(shared.store, points)
    index = Index(
        alias,
        collections,
        entries,
        shared.switches,
        shared.models,
        on_model_back=compare_again,
        on_write_failed=compare_soon,
    )
    settings = shared.settings
    driver = SwitchDriver(
        SwitchPorts(alias, collections, entries, shared.switches, shared.announcer, _now),
        owner=uuid4().hex,
        timing=SwitchTiming(keep_s=settings.keep_old_index_s, lease_s=settings.switch_lease_s),
        on_moved=compare_again,
    )
    decisions = SwitchDecisions(index, shared.switches, shared.models, shared.announcer, _now, driver.wake)
    return _SwitchedIndex(index, decisions, driver)


def _now() -> datetime:
    return datetime.now(UTC)


def _make_routes(
    handlers: IndexerHandlers, tools: ToolHandlers, dead_letters: DeadLetters, audit_log: AuditLogReader
) -> list[Route]:
    return [
        route(contract.INSTALL_SKILL, handlers.install_skill, permits=16),
        route(contract.UPDATE_SKILL, handlers.update_skill, permits=16),
        route(contract.UNINSTALL_SKILL, handlers.uninstall_skill, permits=16),
        route(contract.CHECK_SKILL, handlers.check_skill, permits=16),
        route(contract.PIN_SKILL, handlers.pin_skill, permits=16),
        route(APPROVE_NETWORK, handlers.approve_network, permits=16),
        route(contract.ROLL_BACK_SKILL, handlers.roll_back_skill, permits=16),
        route(contract.GET_SKILL_HISTORY, handlers.get_skill_history, permits=64),
        route(contract.GET_SKILL, handlers.get_skill),
        route(contract.LIST_SKILLS, handlers.listing.list_skills, permits=64),
        route(contract.GET_STATUS, handlers.get_status, permits=64),
        route(LIST_INDEXES, handlers.list_indexes),
        route(START_SWITCH, handlers.start_switch, permits=4),
        route(ROLL_BACK, handlers.roll_back, permits=4),
        route(tools_contract.PUT_TOOLS, tools.registry.put_tools, permits=8),
        route(tools_contract.REMOVE_TOOLS, tools.remove_tools, permits=8),
        route(tools_contract.GET_TOOL, tools.get_tool),
        route(DESCRIBE_TOOLS, tools.describer.describe_tools),
        route(MEASURE_TOOLS, tools.describer.measure_tools),
        route(tools_contract.LIST_TOOLS, tools.listing.list_tools, permits=16),
        route(tools_contract.ACCEPT_TOOL, tools.accept_tool, permits=16),
        route(tools_contract.SET_TOOL_STATE, tools.set_tool_state, permits=16),
        route(SET_TOOL_APPROVAL, tools.set_tool_approval, permits=16),
        route(tools_contract.AUDIT_INDEX, tools.auditor.audit_catalogue, permits=2),
        route(LIST_DEAD_LETTERS, dead_letters.list_page, permits=4),
        route(GET_DEAD_LETTER, dead_letters.get, permits=16),
        route(REPLAY_DEAD_LETTER, dead_letters.replay, permits=16),
        route(DROP_DEAD_LETTER, dead_letters.drop, permits=16),
        route(LIST_AUDIT_LOG, audit_log.list_page, permits=4),
    ]
