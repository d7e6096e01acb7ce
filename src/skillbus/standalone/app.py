"""All services of skillbus in one process, with a nats-server as child process, one connection and one vector store.

Further processes can share the work of searches (`workers`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.background import run_in_background
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.runner import StartError, provision_bus, settle_memory
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.adapters.start_checks import check_start, read_owner_key
from skillbus.standalone.data_directory import load_owner_key, lock_data_directory, write_connection_note
from skillbus.standalone.nats_server import NatsServer, check_loopback, open_nats_server
from skillbus.standalone.settings import StandalonePlan, StandaloneSettings
from skillbus.standalone.storage import StorageWatch, prepare_disk

OpenServices = Callable[[AsyncExitStack, Bus, StandalonePlan], Awaitable[str]]
"""Opens the services but the embedder on a stack, and returns the URL of the gateway."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running skillbus."""

    http_url: str
    api_key: str | None = field(repr=False)
    """The owner's key; None if HTTP is served without a key."""
    nats: NatsServer
    data: Path
    bus: Bus

    @property
    def http_headers(self) -> dict[str, str]:
        """Headers with which a request may do everything."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}

    @property
    def nats_url(self) -> str:
        """Address of NATS. Its token is in `connection.json` of the data directory."""
        return self.nats.address.url


@asynccontextmanager
async def open_standalone(settings: StandaloneSettings) -> AsyncGenerator[Standalone]:
    """Start all services, and stop them in the opposite order when the context is left.

    Raises:
        StartError: The data directory or the port is in use, its disk is full, strangers could use the address, or
            nats-server or a worker does not start.
    """
    async with AsyncExitStack() as stack:
        gateway_settings = settings.build_gateway_settings()
        # Folders, disk, key, address, port and loopback are checked before anything is started: these faults can be
        # told at once.
        stack.enter_context(lock_data_directory(settings.data))
        disk = prepare_disk(settings.data, settings.disk_max)
        if not (settings.no_key or gateway_settings.owner_key or gateway_settings.owner_key_file):
            made = SecretStr(load_owner_key(settings.data))
            gateway_settings = gateway_settings.model_copy(update={"owner_key": made})
        checked = await check_start(gateway_settings)
        # In a thread: nats-server starts and the default model loads while the other services are imported.
        importing = asyncio.ensure_future(asyncio.to_thread(_import_services))
        api_key = read_owner_key(gateway_settings)
        await check_loopback()
        nats = await stack.enter_async_context(open_nats_server(settings.data / "nats"))
        address = nats.address
        bus_settings = BusSettings(url=address.url, token=SecretStr(address.token))
        has_workers = settings.workers > 1
        connection = open_bus(bus_settings, "skillbus-standalone", CollectorRegistry(), disk, has_replicas=has_workers)
        bus = await stack.enter_async_context(connection)
        await provision_bus(bus, bus_settings)
        await stack.enter_async_context(run_in_background(*StorageWatch(disk, settings.data, bus, nats).jobs))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=settings.data).open_loopback()))
        open_services = await importing
        http_url = await open_services(stack, bus, StandalonePlan(settings, gateway_settings, checked, address))
        stack.enter_context(write_connection_note(settings.data, http_url, address.url, address.token, api_key))
        settle_memory()
        log.info("standalone_ready", http_url=http_url, nats_url=address.url, data=str(settings.data))
        yield Standalone(http_url, api_key, nats, settings.data, bus)
        log.info("standalone_stopping")


def _import_services() -> OpenServices:
    from skillbus.standalone.services import open_services  # noqa: PLC0415 (see `open_standalone`)

    return open_services


__all__ = ["Standalone", "StandaloneSettings", "StartError", "open_standalone"]
