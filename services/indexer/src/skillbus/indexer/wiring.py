"""The indexer's composition root."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import Subscription, consume
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import Route, route
from skillbus.common.health import ServiceHealth
from skillbus.common.serving import serve
from skillbus.contracts import index_switch
from skillbus.contracts import indexer as contract
from skillbus.contracts import tools as tools_contract
from skillbus.contracts.network_approval import APPROVE_NETWORK
from skillbus.contracts.resources import INDEXER_CHANGES, INDEXER_MODELS, INDEXER_UPLOADS, PACKAGES, UPLOADS
from skillbus.indexer.adapters.bus_announcer import BusAnnouncer
from skillbus.indexer.adapters.bus_models import BusModels
from skillbus.indexer.adapters.disk_folders import DiskFolders
from skillbus.indexer.adapters.folder_watch import watch_folders
from skillbus.indexer.adapters.incoming_packages import BusPackages
from skillbus.indexer.adapters.kv_catalogue import open_catalogue
from skillbus.indexer.adapters.kv_listed_tools import KvListedTools
from skillbus.indexer.adapters.kv_switches import open_switches
from skillbus.indexer.adapters.kv_tools import open_tools
from skillbus.indexer.adapters.object_packages import ObjectPackages
from skillbus.indexer.adapters.object_uploads import ObjectUploads
from skillbus.indexer.adapters.tool_points import ToolPoints
from skillbus.indexer.adapters.vector_collections import VectorToolCollections
from skillbus.indexer.domain.auditing import Auditor
from skillbus.indexer.domain.index_entry import CatalogueEntries
from skillbus.indexer.domain.installing import Installer
from skillbus.indexer.domain.keeping_tools import ToolKeeper
from skillbus.indexer.domain.reconciling import (
    Reconciler,
    follow_folders,
    going_on,
    keep_reconciled,
    keep_switching,
)
from skillbus.indexer.domain.switch_decisions import SwitchDecisions
from skillbus.indexer.domain.switching import SwitchDriver, SwitchPorts, SwitchTiming
from skillbus.indexer.domain.tool_index import ToolIndex
from skillbus.indexer.domain.tool_listing import ToolListing
from skillbus.indexer.domain.uploads import Uploads
from skillbus.indexer.errors_on_the_wire import to_wire
from skillbus.indexer.service import IndexerHandlers, IndexerListeners, ToolHandlers
from skillbus.indexer.settings import IndexerSettings
from skillbus.vectors import VectorStore
from skillbus.vectors.datasets import TOOLS


@dataclass(frozen=True, slots=True)
class _Parts:
    handlers: IndexerHandlers
    tools: ToolHandlers
    listeners: IndexerListeners
    reconciler: Reconciler
    folders: DiskFolders
    decisions: SwitchDecisions
    driver: SwitchDriver
    wanted: asyncio.Event
    """Set when the reconciler is to run."""


@asynccontextmanager
async def open_indexer(bus: Bus, settings: IndexerSettings, store: VectorStore) -> AsyncGenerator[ServiceHealth]:
    """The indexer on the bus. `store` is the caller's to close."""
    parts = await _build(bus, settings, store)
    health = ServiceHealth(contract.SERVICE, (parts.handlers.index_reachable,))
    async with (
        serve(bus, contract.SERVICE, [*_routes(parts.handlers), *_tool_routes(parts.tools)], health, to_wire),
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
    models, announcer, wanted = BusModels(bus.caller), BusAnnouncer(bus), asyncio.Event()
    collections = VectorToolCollections(store, ToolPoints(bus.caller))
    tools = await open_tools(bus)
    entries, listed = CatalogueEntries(catalogue, tools), KvListedTools(bus.jetstream)
    index = ToolIndex(TOOLS.alias, collections, entries, switches, models, on_model_back=wanted.set)
    driver = SwitchDriver(
        SwitchPorts(TOOLS.alias, collections, entries, switches, announcer, _now),
        owner=uuid4().hex,
        timing=SwitchTiming(keep_s=settings.keep_old_index_s, lease_s=settings.switch_lease_s),
        on_moved=wanted.set,
    )
    decisions = SwitchDecisions(index, switches, models, announcer, _now, driver.wake)
    packages = ObjectPackages(package_store)
    installer = Installer(catalogue, packages, folders, index, announcer, now=_now)
    uploads = Uploads(ObjectUploads(await open_object_store(bus, UPLOADS)), installer, announcer)
    return _Parts(
        handlers=IndexerHandlers(installer, catalogue, index, BusPackages(package_store), folders, decisions, tools),
        tools=ToolHandlers(
            ToolKeeper(tools, listed, index, announcer, now=_now),
            ToolListing(catalogue, tools, listed),
            installer,
            Auditor(catalogue, listed, entries, index, packages, folders),
        ),
        listeners=IndexerListeners(installer, uploads, decisions),
        reconciler=Reconciler(catalogue, entries, packages, folders, index, installer, announcer),
        folders=folders,
        decisions=decisions,
        driver=driver,
        wanted=wanted,
    )


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
        route(index_switch.LIST_INDEXES, handlers.list_indexes),
        route(index_switch.START_SWITCH, handlers.start_switch, permits=4),
        route(index_switch.ROLL_BACK, handlers.roll_back, permits=4),
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


def _subscriptions(listeners: IndexerListeners) -> list[Subscription]:
    return [
        Subscription(INDEXER_UPLOADS, listeners.on_upload),
        Subscription(INDEXER_CHANGES, listeners.on_change),
        Subscription(INDEXER_MODELS, listeners.on_default_model),
    ]


@asynccontextmanager
async def _keeping_up(parts: _Parts, settings: IndexerSettings) -> AsyncGenerator[None]:
    """Reconcile, follow the folders and switch models while the context is open."""
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(keep_reconciled(parts.reconciler, settings.reconcile_every_s, parts.wanted, stop)),
        asyncio.create_task(follow_folders(parts.reconciler, lambda: watch_folders(parts.folders, stop), stop)),
        asyncio.create_task(keep_switching(parts.decisions, parts.driver, stop)),
    ]
    try:
        yield
    finally:
        stop.set()
        parts.wanted.set()
        parts.driver.wake()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with going_on("release_switch"):
            await parts.driver.release()
