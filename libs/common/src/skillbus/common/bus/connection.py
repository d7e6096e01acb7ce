"""The connection to NATS: one per process, never given up, shared by the services of the process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from prometheus_client import CollectorRegistry
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.bus.caller import Caller, LocalEndpoints
from skillbus.common.bus.metrics import BusMetrics

log = structlog.get_logger(__name__)


class BusSettings(BaseSettings):
    """Address of NATS and credentials, read from `SKILLBUS_NATS_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_NATS_", frozen=True)

    url: str = "nats://127.0.0.1:4222"
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    inbox_prefix: str = "_INBOX"
    """Prefix of reply subjects. A prefix per user keeps other users of the server from reading replies."""
    connect_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds to wait for a server when a service starts."""
    provision: bool = True
    """Create missing streams and buckets when a service starts."""


class BusUnreachableError(Exception):
    """No NATS server answers at the configured address."""


@dataclass(frozen=True, slots=True)
class Bus:
    """The connection of a process, and what services do on it."""

    client: Client
    jetstream: JetStreamContext
    caller: Caller
    metrics: BusMetrics
    local_endpoints: LocalEndpoints


@asynccontextmanager
async def open_bus(settings: BusSettings, name: str, registry: CollectorRegistry) -> AsyncGenerator[Bus]:
    """Connect, and drain the connection at the end of the context.

    Raises:
        BusUnreachableError: No server answered within `settings.connect_timeout_s`.
    """
    client = Client()
    caller: Caller | None = None

    async def on_error(error: Exception) -> None:
        log.warning("nats_error", error=repr(error))

    async def on_disconnected() -> None:
        if not client.is_draining and not client.is_closed:
            log.warning("nats_disconnected")
        if caller is not None:
            caller.connection_lost()

    async def on_reconnected() -> None:
        log.info("nats_reconnected")
        if caller is not None:
            caller.connection_restored()

    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await client.connect(
                settings.url,
                name=name,
                user=settings.user,
                password=settings.password.get_secret_value() if settings.password else None,
                token=settings.token.get_secret_value() if settings.token else None,
                inbox_prefix=settings.inbox_prefix,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type]  # seconds; a float works, its annotation is narrow
                ping_interval=20,
                drain_timeout=20,
                error_cb=on_error,
                disconnected_cb=on_disconnected,
                reconnected_cb=on_reconnected,
            )
    except (TimeoutError, NatsError, OSError) as error:
        raise BusUnreachableError(
            f"no NATS server at {settings.url}: start one, or set SKILLBUS_NATS_URL ({error!r})"
        ) from error
    local_endpoints: LocalEndpoints = {}
    caller = Caller(client, local_endpoints)
    try:
        await caller.open()
        yield Bus(client, client.jetstream(timeout=5), caller, BusMetrics(registry), local_endpoints)
    finally:
        # A lost connection cannot be closed properly, which loses nothing. uvloop raises RuntimeError for it.
        with suppress(OSError, NatsError, RuntimeError):
            if client.is_connected:
                await client.drain()
            elif not client.is_closed:
                await client.close()


async def confirm_subscriptions(client: Client) -> None:
    """Wait until the server knows all subscriptions made so far.

    nats-py sends the PING of a flush ahead of commands that it has not written yet. They are written by the time of the
    PONG, so a second PING comes after them.
    """
    await client.flush()
    await client.flush()
