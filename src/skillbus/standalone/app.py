"""All services of skillbus in one process, with a nats-server as child process, one connection and one vector store."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from pydantic import ByteSize, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.agent.domain.servers.operator_file import MCP_FILE
from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.background import run_in_background
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.disk_space import MIB
from skillbus.common.bus.provision import provision
from skillbus.common.runner import StartError, settle_memory
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import check_start, open_gateway, read_owner_key
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.data_directory import load_owner_key, lock_data_directory, write_connection_note
from skillbus.standalone.nats_server import NatsServer, open_nats_server
from skillbus.standalone.storage import StorageWatch, prepare_disk
from skillbus.vectors import VectorStoreLocked, open_vector_store

log = structlog.get_logger(__name__)


class StandaloneSettings(BaseSettings):
    """Settings from variables `SKILLBUS_*`. Options of the command line override them."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    data: Path = Path("data")
    """Data directory: skills, vectors, databases, NATS."""
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8080, ge=0, le=65_535)
    """Port of the HTTP API. 0 takes a free one."""
    owner_key: SecretStr | None = None
    """Key of the owner, who may do everything. Default: the gateway's own setting, or else the file `owner.key` of the
    data directory, which the first start makes."""
    disk_max: ByteSize | None = Field(default=None, ge=64 * MIB)
    """Size of the data directory, such as `2GiB`, up to which new data is accepted; without it only the free space of
    the disk counts."""
    no_key: bool = False
    """True serves HTTP without a key: on loopback only, and without commands of MCP servers."""

    def build_gateway_settings(self) -> GatewaySettings:
        """Return the settings of the gateway, including its own variables `SKILLBUS_GATEWAY_*`.

        Raises:
            StartError: A key is set, and `no_key` too.
        """
        settings = GatewaySettings(host=self.http_host, port=self.http_port)
        if self.owner_key is not None:
            settings = settings.model_copy(update={"owner_key": self.owner_key})
        if not self.no_key:
            return settings.model_copy(update={"no_key": False})
        if settings.owner_key is not None or settings.owner_key_file is not None:
            raise StartError("an owner's key is set, and --no-key too: remove one of them")
        return settings.model_copy(update={"no_key": True})


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
            nats-server does not start.
    """
    async with AsyncExitStack() as stack:
        gateway_settings = settings.build_gateway_settings()
        # Disk, key, address and port are checked before anything is started, because these faults can be told at once.
        stack.enter_context(lock_data_directory(settings.data))
        disk = prepare_disk(settings.data, settings.disk_max)
        if not (settings.no_key or gateway_settings.owner_key or gateway_settings.owner_key_file):
            made = SecretStr(load_owner_key(settings.data))
            gateway_settings = gateway_settings.model_copy(update={"owner_key": made})
        checked = await check_start(gateway_settings)
        api_key = read_owner_key(gateway_settings)
        nats = await stack.enter_async_context(open_nats_server(settings.data / "nats"))
        address = nats.address
        bus_settings = BusSettings(url=address.url, token=SecretStr(address.token))
        bus = await stack.enter_async_context(open_bus(bus_settings, "skillbus-standalone", CollectorRegistry(), disk))
        await provision(bus.jetstream)
        await stack.enter_async_context(run_in_background(*StorageWatch(disk, settings.data, bus, nats).jobs))
        await _open_services(stack, bus, settings.data, may_start_commands=not settings.no_key)
        gateway = await stack.enter_async_context(open_gateway(bus, gateway_settings, checked))
        http_url = gateway.url
        stack.enter_context(write_connection_note(settings.data, http_url, address.url, address.token, api_key))
        settle_memory()
        log.info("standalone_ready", http_url=http_url, nats_url=address.url, data=str(settings.data))
        yield Standalone(http_url, api_key, nats, settings.data, bus)
        log.info("standalone_stopping")


async def _open_services(stack: AsyncExitStack, bus: Bus, data: Path, *, may_start_commands: bool) -> None:
    await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data).open_loopback()))
    try:
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
    except VectorStoreLocked as error:
        raise StartError(str(error)) from error
    await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
    await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
    await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=data), store))
    await stack.enter_async_context(open_sandbox(bus, SandboxSettings(data=data / "sandbox")))
    agent = AgentSettings(data=data / "agent").on_ones_own_machine(data / MCP_FILE)
    if not may_start_commands:
        agent = agent.model_copy(update={"mcp_file": None})
    await stack.enter_async_context(open_agent(bus, agent))


__all__ = ["Standalone", "StandaloneSettings", "StartError", "open_standalone"]
