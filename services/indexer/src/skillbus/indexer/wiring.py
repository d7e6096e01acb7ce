"""The indexer's composition root."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic
from uuid import uuid4

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.dead_letters import DeadLetters
from skillbus.common.bus.events import Subscription, consume
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import Route, route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer import skills as contract
from skillbus.contracts.indexer import tools as tools_contract
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    REPLAY_DEAD_LETTER,
)
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, ROLL_BACK, START_SWITCH
from skillbus.contracts.indexer.skills import APPROVE_NETWORK
from skillbus.contracts.resources import (
    INDEXER_CHANGES,
    INDEXER_KNOWLEDGE,
    INDEXER_MODELS,
    INDEXER_UPLOADS,
    PACKAGES,
    UPLOADS,
)
from skillbus.indexer.adapters.bus_announcer import BusAnnouncer
from skillbus.indexer.adapters.bus_embedder import BusModels
from skillbus.indexer.adapters.bus_knowledge import BusKnowledge
from skillbus.indexer.adapters.disk_folders import DiskFolders, watch_folders
from skillbus.indexer.adapters.knowledge_points import KnowledgePoints
from skillbus.indexer.adapters.kv_catalogue import open_catalogue
from skillbus.indexer.adapters.kv_listed_tools import KvListedTools
from skillbus.indexer.adapters.kv_switches import open_switches
from skillbus.indexer.adapters.kv_tools import open_tools
from skillbus.indexer.adapters.object_packages import BusPackages, ObjectPackages, ObjectUploads
from skillbus.indexer.adapters.points import Points
from skillbus.indexer.adapters.tool_points import ToolPoints
from skillbus.indexer.adapters.vector_collections import StoredCollections
from skillbus.indexer.domain.audit import Auditor
from skillbus.indexer.domain.catalogue.entry import CatalogueEntries, ToolEntry
from skillbus.indexer.domain.catalogue.listing import ToolListing
from skillbus.indexer.domain.index.audit import IndexAuditor
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import EmbeddingModels, Entries, EntryT
from skillbus.indexer.domain.index.switch_decisions import Indexes, SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver, SwitchPorts, SwitchTiming
from skillbus.indexer.domain.index.switch_record import Switches
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntries, KnowledgeEntry
from skillbus.indexer.domain.knowledge.follower import HeardChanges, KnowledgeFollower
from skillbus.indexer.domain.knowledge.reconciler import KnowledgeReconciler
from skillbus.indexer.domain.maintenance import follow_folders, going_on, keep_reconciled, keep_switching
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.reconciler import Reconciler
from skillbus.indexer.domain.skill.uploads import Uploads
from skillbus.indexer.domain.tool.registry import ToolKeeper
from skillbus.indexer.errors_on_the_wire import to_wire
from skillbus.indexer.service import IndexerHandlers, IndexerListeners, ToolHandlers
from skillbus.indexer.settings import IndexerSettings
from skillbus.vectors import VectorStore

_LEARNER_AGAIN_S: Final = (2.0, 5.0, 15.0, 30.0)
"""Before each further try when the learner, or what else knowledge needs, cannot be had; the last again and again."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """What every index works with."""

    store: VectorStore
    switches: Switches
    models: EmbeddingModels
    announcer: BusAnnouncer
    settings: IndexerSettings


@dataclass(frozen=True, slots=True)
class _Indexed(Generic[EntryT]):
    """An index, and what takes it from model to model."""

    entries: Entries[EntryT]
    index: Index[EntryT]
    decisions: SwitchDecisions
    driver: SwitchDriver[EntryT]
    wanted: asyncio.Event
    """Set when it is to be compared with its record."""


@dataclass(frozen=True, slots=True)
class _Parts:
    handlers: IndexerHandlers
    tool_handlers: ToolHandlers
    listeners: IndexerListeners
    reconciler: Reconciler
    knowledge_reconciler: KnowledgeReconciler
    folders: DiskFolders
    tools: _Indexed[ToolEntry]
    knowledge: _Indexed[KnowledgeEntry]


@asynccontextmanager
async def open_indexer(bus: Bus, settings: IndexerSettings, store: VectorStore) -> AsyncGenerator[ServiceHealth]:
    """The indexer on the bus. `store` is the caller's to close."""
    parts = await _build(bus, settings, store)
    health = ServiceHealth(SERVICE, (parts.handlers.index_reachable,))
    routes = [*_routes(parts.handlers), *_tool_routes(parts.tool_handlers), *_dead_letter_routes(DeadLetters(bus))]
    async with (
        serve_routes(bus, SERVICE, routes, health, to_wire),
        consume(bus, _subscriptions(parts.listeners)),
        _keeping_up(parts, settings),
    ):
        yield health


async def _build(bus: Bus, settings: IndexerSettings, store: VectorStore) -> _Parts:
    catalogue = await open_catalogue(bus)
    switches = await open_switches(bus)
    package_store = await open_object_store(bus, PACKAGES)
    folders = DiskFolders(settings.data)
    await asyncio.to_thread(folders.prepare)
    announcer = BusAnnouncer(bus)
    shared = _Shared(store, switches, BusModels(bus.caller), announcer, settings)
    records, listed = await open_tools(bus), KvListedTools(bus.jetstream)
    tools = _indexed(shared, ToolPoints(bus.caller), CatalogueEntries(catalogue, records))
    record = BusKnowledge(bus.caller)
    knowledge = _indexed(shared, KnowledgePoints(bus.caller), KnowledgeEntries(record))
    follower = KnowledgeFollower(knowledge.index, record, announcer)
    heard = HeardChanges(follower, knowledge.wanted.set)
    indexes = Indexes((tools.decisions, knowledge.decisions))
    packages = ObjectPackages(package_store)
    installer = Installer(catalogue, packages, folders, tools.index, announcer, now=_now)
    uploads = Uploads(ObjectUploads(await open_object_store(bus, UPLOADS)), installer, announcer)
    tools_auditor = IndexAuditor(tools.index, tools.entries, tools.index.follow)
    knowledge_auditor = IndexAuditor(knowledge.index, knowledge.entries, follower.follow, "knowledge_")
    incoming = BusPackages(package_store)
    return _Parts(
        handlers=IndexerHandlers(installer, catalogue, tools.index, incoming, folders, indexes, records),
        tool_handlers=ToolHandlers(
            ToolKeeper(records, listed, tools.index, announcer, now=_now),
            ToolListing(catalogue, records, listed),
            installer,
            Auditor(catalogue, listed, tools_auditor, knowledge_auditor, packages, folders),
        ),
        listeners=IndexerListeners(installer, uploads, indexes, heard),
        reconciler=Reconciler(catalogue, tools.entries, packages, folders, tools.index, installer, announcer),
        knowledge_reconciler=KnowledgeReconciler(knowledge.index, record, follower, announcer),
        folders=folders,
        tools=tools,
        knowledge=knowledge,
    )


def _indexed(shared: _Shared, points: Points[EntryT], entries: Entries[EntryT]) -> _Indexed[EntryT]:
    alias, wanted = points.layout.dataset.alias, asyncio.Event()
    collections = StoredCollections(shared.store, points)
    index = Index(alias, collections, entries, shared.switches, shared.models, on_model_back=wanted.set)
    settings = shared.settings
    driver = SwitchDriver(
        SwitchPorts(alias, collections, entries, shared.switches, shared.announcer, _now),
        owner=uuid4().hex,
        timing=SwitchTiming(keep_s=settings.keep_old_index_s, lease_s=settings.switch_lease_s),
        on_moved=wanted.set,
    )
    decisions = SwitchDecisions(index, shared.switches, shared.models, shared.announcer, _now, driver.wake)
    return _Indexed(entries, index, decisions, driver, wanted)


def _now() -> datetime:
    return datetime.now(UTC)


def _routes(handlers: IndexerHandlers) -> list[Route]:
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
        route(contract.LIST_SKILLS, handlers.list_skills, permits=64),
        route(contract.GET_STATUS, handlers.get_status, permits=64),
        route(LIST_INDEXES, handlers.list_indexes),
        route(START_SWITCH, handlers.start_switch, permits=4),
        route(ROLL_BACK, handlers.roll_back, permits=4),
    ]


def _tool_routes(handlers: ToolHandlers) -> list[Route]:
    return [
        route(tools_contract.PUT_TOOLS, handlers.put_tools, permits=8),
        route(tools_contract.REMOVE_TOOLS, handlers.remove_tools, permits=8),
        route(tools_contract.GET_TOOL, handlers.get_tool),
        route(tools_contract.LIST_TOOLS, handlers.list_tools, permits=16),
        route(tools_contract.ACCEPT_TOOL, handlers.accept_tool, permits=16),
        route(tools_contract.SET_TOOL_STATE, handlers.set_tool_state, permits=16),
        route(tools_contract.AUDIT_INDEX, handlers.audit_index, permits=2),
    ]


def _dead_letter_routes(dead_letters: DeadLetters) -> list[Route]:
    return [
        route(LIST_DEAD_LETTERS, dead_letters.list_page, permits=4),
        route(GET_DEAD_LETTER, dead_letters.get, permits=16),
        route(REPLAY_DEAD_LETTER, dead_letters.replay, permits=16),
        route(DROP_DEAD_LETTER, dead_letters.drop, permits=16),
    ]


def _subscriptions(listeners: IndexerListeners) -> list[Subscription]:
    return [
        Subscription(INDEXER_UPLOADS, listeners.on_upload),
        Subscription(INDEXER_CHANGES, listeners.on_change),
        Subscription(INDEXER_MODELS, listeners.on_default_model),
        Subscription(INDEXER_KNOWLEDGE, listeners.on_knowledge_changed),
    ]


@asynccontextmanager
async def _keeping_up(parts: _Parts, settings: IndexerSettings) -> AsyncGenerator[None]:
    """Reconcile, follow the folders and switch models while the context is open."""
    stop = asyncio.Event()
    reconciler, every_s = parts.reconciler, settings.reconcile_every_s
    of_tools = {
        "scan_folders": reconciler.scan_folders,
        "compare_index": reconciler.compare_index,
        "sweep_packages": reconciler.sweep_packages,
    }
    of_knowledge = {"compare_knowledge": parts.knowledge_reconciler.compare}
    tools, knowledge = parts.tools, parts.knowledge
    tasks = [
        asyncio.create_task(going)
        for going in (
            keep_reconciled(of_tools, every_s, tools.wanted, stop),
            follow_folders(reconciler, lambda: watch_folders(parts.folders, stop), stop),
            keep_switching(tools.decisions, tools.driver, stop),
            keep_reconciled(of_knowledge, every_s, knowledge.wanted, stop, _LEARNER_AGAIN_S),
            keep_switching(knowledge.decisions, knowledge.driver, stop, _LEARNER_AGAIN_S),
        )
    ]
    try:
        yield
    finally:
        stop.set()
        for indexed in (tools, knowledge):
            indexed.wanted.set()
            indexed.driver.wake()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for indexed in (tools, knowledge):
            with going_on("release_switch"):
                await indexed.driver.release()
