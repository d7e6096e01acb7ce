"""Runs one service as a process: logging, signals, the connection, the operators' port, and an orderly end."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import structlog
import uvloop
from prometheus_client import CollectorRegistry
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.bus.connection import Bus, BusSettings, BusUnreachableError, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.health import HealthSource
from skillbus.common.logs import configure_logging
from skillbus.common.operations_port import open_operations_port
from skillbus.common.validation import describe_problems

log = structlog.get_logger(__name__)


class ProcessSettings(BaseSettings):
    """What every process of skillbus reads, from `SKILLBUS_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    log_level: str = "INFO"
    operations_host: str = "127.0.0.1"
    operations_port: int | None = Field(default=None, ge=0, le=65_535)
    """Serves `/healthz`, `/readyz` and `/metrics` of this process; off when absent."""


class StartError(Exception):
    """A service cannot start; the message says what to do about it."""


OpenService = Callable[[Bus], AbstractAsyncContextManager[HealthSource]]


def run(open_service: OpenService, name: str) -> None:
    """Run a service until SIGINT or SIGTERM. Exits with 1 and one line when it cannot start."""
    try:
        settings = ProcessSettings()
        configure_logging(settings.log_level)
        run_loop(_serve(open_service, name, settings))
    except ValidationError as error:
        problems = describe_problems(error, limit=20)  # without values: they may be secrets
        sys.exit(f"skillbus {name}: settings of {error.title} (environment variables SKILLBUS_…): {problems}")
    except (StartError, BusUnreachableError) as error:
        sys.exit(f"skillbus {name}: {error}")


def run_loop(main: Coroutine[object, object, None]) -> None:
    """Run a coroutine on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def settle_memory() -> None:
    """Keep pauses of the garbage collector short, in which nothing is answered.

    What the start made is left out of it: a full collection would walk it, for 0.2 s. What is garbage of it stays too,
    some 2,000 objects. Young objects are looked at in larger portions, of some milliseconds, and older ones seldom: by
    default a full collection came every other second while an index of 10,000 tools was built, and took 0.1 s.
    """
    gc.freeze()
    gc.set_threshold(5_000, 100, 100)


async def until_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _serve(open_service: OpenService, name: str, settings: ProcessSettings) -> None:
    bus_settings = BusSettings()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(bus_settings, f"skillbus-{name}", CollectorRegistry()))
        if bus_settings.provision:
            await provision(bus.jetstream)
        service = await stack.enter_async_context(open_service(bus))
        if settings.operations_port is not None:
            port = open_operations_port(
                settings.operations_host, settings.operations_port, service, bus.metrics.registry
            )
            await stack.enter_async_context(port)
        settle_memory()
        log.info("service_ready", service=name)
        await until_signal()
        log.info("service_stopping", service=name)
