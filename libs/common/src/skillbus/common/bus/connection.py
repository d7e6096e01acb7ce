"""The connection to NATS: one per process, kept for ever, shared by the services in it."""

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

from skillbus.common.bus.caller import Caller
from skillbus.common.bus.near import Near
from skillbus.common.metrics import BusMetrics

log = structlog.get_logger(__name__)


class BusSettings(BaseSettings):
    """Where NATS is. Read from `SKILLBUS_NATS_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_NATS_", frozen=True)

    url: str = "nats://127.0.0.1:4222"
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    inbox_prefix: str = "_INBOX"
    """Where replies are sent to. One of its own keeps the other users of a server from listening."""
    connect_timeout_s: float = Field(default=30.0, gt=0)
    """How long to wait for a server when a service starts."""
    provision: bool = True
    """Whether a service makes missing streams and buckets when it starts."""


class BusUnreachableError(Exception):
    """No NATS server answers where one should be."""


@dataclass(frozen=True, slots=True)
class Bus:
    """What a service does on the bus, it does with this."""

    client: Client
    jetstream: JetStreamContext
    caller: Caller
    metrics: BusMetrics
    near: Near
    """The services of this process."""


@asynccontextmanager
async def open_bus(settings: BusSettings, name: str, registry: CollectorRegistry) -> AsyncGenerator[Bus]:
    """Connect, and drain when done.

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
    near = Near()
    caller = Caller(client, near)
    try:
        await caller.open()
        yield Bus(client, client.jetstream(timeout=5), caller, BusMetrics(registry), near)
    finally:
        await _close(client)


async def _close(client: Client) -> None:
    # A connection that is away cannot be closed in order; nothing is lost by that. uvloop says so by a RuntimeError.
    with suppress(OSError, NatsError, RuntimeError):
        if client.is_connected:
            await client.drain()
        elif not client.is_closed:
            await client.close()
