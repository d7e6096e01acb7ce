"""Composition root of the indexer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
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
from skillbus.contracts.indexer import commands as commands_contract
from skillbus.contracts.indexer import devices as devices_contract
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
from skillbus.indexer.adapters.kv_catalogue import KvSkills, open_tools
from skillbus.indexer.adapters.kv_homes import (
    KvHomeRevisions,
    open_commands,
    open_devices,
    open_listed_commands,
    open_listed_devices,
)
from skillbus.indexer.adapters.kv_listed_tools import open_listed_tools
from skillbus.indexer.adapters.object_packages import IncomingObjects, ObjectPackages, ObjectUploads
from skillbus.indexer.adapters.points.command_points import CommandPoints
from skillbus.indexer.adapters.points.device_points import DevicePoints
from skillbus.indexer.adapters.points.knowledge_points import KnowledgePoints
from skillbus.indexer.adapters.points.layout import PointBuilder
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.indexer.adapters.vector_collections import StoredCollections
from skillbus.indexer.domain.audit import CatalogueAuditor, IndexAuditor
from skillbus.indexer.domain.catalogue.entry import CatalogueEntries
from skillbus.indexer.domain.catalogue.functions import ToolDescriber
from skillbus.indexer.domain.catalogue.listing import CatalogueListing
from skillbus.indexer.domain.errors import IndexerError
from skillbus.indexer.domain.home.command import CommandRecord
from skillbus.indexer.domain.home.device import DeviceRecord
from skillbus.indexer.domain.home.homes import Homes
from skillbus.indexer.domain.home.library import CommandLibrary
from skillbus.indexer.domain.index.drift import IndexReconciler
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, EmbeddingModels, Entries, EntryT
from skillbus.indexer.domain.index.switch_decisions import Indexes, SwitchDecisions
from skillbus.indexer.domain.index.switch_driver import SwitchDriver, SwitchPorts, SwitchTask, SwitchTiming
from skillbus.indexer.domain.index.switch_record import Switches, SwitchRecord
from skillbus.indexer.domain.knowledge import KnowledgeEntries, KnowledgeFollower, KnowledgeReconciler
from skillbus.indexer.domain.record.ports import ListedRecords, RecordStore
from skillbus.indexer.domain.record.registry import PlainRegistry, PlainT, RecordEntries
from skillbus.indexer.domain.skill.follower import SkillFollower, SkillStores
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.reconciler import FolderTask, SkillReconciler
from skillbus.indexer.domain.skill.uploads import Uploads
from skillbus.indexer.domain.tool.registry import make_registry
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
class _PlainPart(Generic[PlainT]):
    """Records that are entries of an index as they are, and the parts that keep the index at them."""

    registry: PlainRegistry[PlainT]
    switched: _SwitchedIndex[PlainT]
    auditor: IndexAuditor[PlainT]
    tasks: tuple[BackgroundTask, ...]


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

    skills, tools, listed = KvSkills(bus), open_tools(bus), open_listed_tools(bus)
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

    tools_job = _make_job(settings, _list_steps(reconciler))
    knowledge_job = _make_job(settings, {"compare_knowledge": knowledge_reconciler.compare_index})
    listing = CatalogueListing(skills, tools, listed)
    homes, devices = _open_homes(shared, bus)
    library, commands = _open_library(shared, bus)
    switched = (tool_index, knowledge_index, devices.switched, commands.switched)
    indexes = Indexes(tuple(one.decisions for one in switched))
    uploads = Uploads(ObjectUploads(await open_object_store(bus, UPLOADS)), installer, announcer)
    tool_audit = IndexAuditor(tool_index.index, tool_index.index.sync_entries)
    knowledge_audit = IndexAuditor(knowledge_index.index, knowledge_follower.follow_items, "knowledge_")
    auditor = CatalogueAuditor(
        skills, listed, tool_audit, knowledge_audit, devices.auditor, commands.auditor, packages, folders
    )
    registry = make_registry(tools, listed, tool_index.index, announcer, _now)
    return _Parts(
        handlers=IndexerHandlers(
            installer, listing, tool_index.index, IncomingObjects(package_objects), folders, indexes, homes, library
        ),
        tool_handlers=ToolHandlers(registry, listing, ToolDescriber(skills, tools), installer, auditor),
        listeners=IndexerListeners(follower, uploads, indexes, knowledge_follower),
        tasks=(
            tools_job,
            knowledge_job,
            FolderTask(reconciler, lambda stop: watch_folders(folders, stop)),
            SwitchTask(tool_index.decisions, tool_index.driver),
            SwitchTask(knowledge_index.decisions, knowledge_index.driver, _RETRY_S),
            *devices.tasks,
            *commands.tasks,
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


def _open_homes(shared: _Shared, bus: Bus) -> tuple[Homes, _PlainPart[DeviceRecord]]:
    listed = open_listed_devices(bus)
    part = _open_plain(shared, DevicePoints(bus.caller), open_devices(bus), listed, "device")
    return Homes(part.registry, listed, KvHomeRevisions(bus)), part


def _open_library(shared: _Shared, bus: Bus) -> tuple[CommandLibrary, _PlainPart[CommandRecord]]:
    listed = open_listed_commands(bus)
    part = _open_plain(shared, CommandPoints(bus.caller), open_commands(bus), listed, "command")
    return CommandLibrary(part.registry, listed), part


def _open_plain(
    shared: _Shared,
    points: PointBuilder[PlainT],
    records: RecordStore[PlainT],
    listed: ListedRecords[Digested],
    kind: str,
) -> _PlainPart[PlainT]:
    """Open the index of records that are its entries as they are."""

    def get_job() -> PeriodicJob:
        return job

    switched = _open_index(shared, points, RecordEntries(records, listed), get_job)
    job = _make_job(shared.settings, {f"compare_{kind}s": IndexReconciler(switched.index).compare_index})
    return _PlainPart(
        PlainRegistry(records, listed, switched.index, kind),
        switched,
        IndexAuditor(switched.index, switched.index.sync_entries, f"{kind}_"),
        (job, SwitchTask(switched.decisions, switched.driver)),
    )


def _list_steps(reconciler: SkillReconciler) -> Mapping[str, Callable[[], Awaitable[None]]]:
    return {
        "scan_folders": reconciler.scan_folders,
        "compare_index": reconciler.compare_index,
        "delete_unclaimed_packages": reconciler.delete_unclaimed_packages,
    }


def _make_job(settings: IndexerSettings, steps: Mapping[str, Callable[[], Awaitable[object]]]) -> PeriodicJob:
    return PeriodicJob(steps, every_s=settings.reconcile_every_s, retry_s=_RETRY_S, postponed_by=(IndexerError,))


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
        route(devices_contract.PUT_DEVICES, handlers.homes.put_devices, permits=8),
        route(devices_contract.REMOVE_DEVICES, handlers.homes.remove_devices, permits=8),
        route(devices_contract.LIST_DEVICES, handlers.homes.list_devices, permits=16),
        route(devices_contract.LIST_HOMES, handlers.homes.list_homes, permits=16),
        route(devices_contract.LOAD_HOME, handlers.homes.load_home, permits=64),
        route(commands_contract.PUT_COMMANDS, handlers.library.put_commands, permits=8),
        route(commands_contract.REMOVE_COMMANDS, handlers.library.remove_commands, permits=8),
        route(commands_contract.LIST_COMMANDS, handlers.library.list_commands, permits=16),
        route(LIST_DEAD_LETTERS, dead_letters.list_page, permits=4),
        route(GET_DEAD_LETTER, dead_letters.get, permits=16),
        route(REPLAY_DEAD_LETTER, dead_letters.replay, permits=16),
        route(DROP_DEAD_LETTER, dead_letters.drop, permits=16),
        route(LIST_AUDIT_LOG, audit_log.list_page, permits=4),
    ]
