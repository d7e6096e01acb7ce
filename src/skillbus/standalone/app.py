"""All services of skillbus in one process, with a nats-server as child process, one connection and one vector store."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.http_server import PortInUseError
from skillbus.common.runner import StartError, settle_memory
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.wiring import open_gateway
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.data_directory import lock_data_directory, write_connection_note
from skillbus.standalone.nats_server import NatsServer, open_nats_server
from skillbus.standalone.settings import StandaloneSettings
from skillbus.vectors import VectorStoreLocked, open_vector_store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running skillbus."""

    http_url: str
    nats: NatsServer
    data: Path
    bus: Bus

    @property
    def nats_url(self) -> str:
        """Address of NATS. Its token is in `connection.json` of the data directory."""
        return self.nats.address.url


@asynccontextmanager
async def open_standalone(settings: StandaloneSettings) -> AsyncGenerator[Standalone]:
    """Start all services, and stop them in the opposite order when the context is left.

    Raises:
        StartError: The data directory or the port is in use, or nats-server does not start.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_directory(settings.data))
        nats = await stack.enter_async_context(open_nats_server(settings.data / "nats"))
        bus = await stack.enter_async_context(_open_bus(nats))
        await _open_services(stack, bus, settings.data)
        http_url = await _open_http(stack, bus, settings)
        address = nats.address
        stack.enter_context(write_connection_note(settings.data, http_url, address.url, address.token))
        settle_memory()
        log.info("standalone_ready", http_url=http_url, nats_url=address.url, data=str(settings.data))
        yield Standalone(http_url, nats, settings.data, bus)
        log.info("standalone_stopping")


@asynccontextmanager
async def _open_bus(nats: NatsServer) -> AsyncGenerator[Bus]:
    address = nats.address
    settings = BusSettings(url=address.url, token=SecretStr(address.token))
    async with open_bus(settings, "skillbus-standalone", CollectorRegistry()) as bus:
        await provision(bus.jetstream)
        yield bus


async def _open_services(stack: AsyncExitStack, bus: Bus, data: Path) -> None:
    await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
    try:
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
    except VectorStoreLocked as error:
        raise StartError(str(error)) from error
    await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
    await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
    await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=data), store))
    await stack.enter_async_context(open_sandbox(bus, SandboxSettings(data=data / "sandbox")))
    await stack.enter_async_context(open_agent(bus, AgentSettings(data=data / "agent").on_ones_own_machine()))


async def _open_http(stack: AsyncExitStack, bus: Bus, settings: StandaloneSettings) -> str:
    try:
        return (await stack.enter_async_context(open_gateway(bus, settings.build_gateway_settings()))).url
    except PortInUseError as error:
        raise StartError(str(error)) from error


__all__ = ["Standalone", "StandaloneSettings", "StartError", "open_standalone"]
