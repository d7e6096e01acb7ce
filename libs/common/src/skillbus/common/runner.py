"""Runs one service as a process: logging, signals, the connection, the operations port, and an orderly end."""

import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final, TextIO

import structlog
import uvloop
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from structlog.typing import EventDict, Processor
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from skillbus.common.background import PeriodicJob, run_in_background
from skillbus.common.bus.connection import Bus, BusSettings, BusUnreachableError, open_bus
from skillbus.common.bus.disk_space import DiskSpace, JetStreamRoom
from skillbus.common.bus.headers import traceparent
from skillbus.common.bus.provision import ProvisionError, provision_within
from skillbus.common.http_server import PortInUseError, serve_http
from skillbus.common.service import HealthSource
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON
from skillbus.contracts.validation import describe_problems

_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
"""Renders tracebacks without local variables: they may hold secrets."""

log = structlog.get_logger(__name__)


class ProcessSettings(BaseSettings):
    """Settings of every process of skillbus, read from `SKILLBUS_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_", frozen=True)

    log_level: str = "INFO"
    operations_host: str = "127.0.0.1"
    operations_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of `/healthz`, `/readyz` and `/metrics` of this process; off when absent."""


class StartError(Exception):
    """A service cannot start; the message says what to do about it."""


_PROVISIONED_POLL_S: Final = 0.25
_MEASURE_EVERY_S: Final = 5.0

OpenService = Callable[[Bus], AbstractAsyncContextManager[HealthSource]]


def run(open_service: OpenService, name: str) -> None:
    """Run a service until SIGINT or SIGTERM. Exit with status 1 and one line if it cannot start."""
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
    """Keep the pauses of the garbage collector short.

    Objects made during the start are excluded from collection: a full collection would walk them, which takes 0.2 s.
    The garbage among them, some 2,000 objects, is kept too. Young objects are collected in larger portions that take
    some milliseconds, and old ones rarely: with the default thresholds a full collection of 0.1 s ran every other
    second while an index of 10,000 tools was built.
    """
    gc.freeze()
    gc.set_threshold(5_000, 100, 100)


async def until_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    received = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received.set)
    try:
        await received.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _serve(open_service: OpenService, name: str, settings: ProcessSettings) -> None:
    bus_settings = BusSettings()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(bus_settings, f"skillbus-{name}", CollectorRegistry()))
        bus = await stack.enter_async_context(measure_storage(bus, bus_settings))
        if bus_settings.provision:
            await provision_bus(bus, bus_settings)
        service = await stack.enter_async_context(open_when_provisioned(open_service, bus, bus_settings))
        if settings.operations_port is not None:
            port = _open_operations_port(
                settings.operations_host, settings.operations_port, service, bus.metrics.registry
            )
            await stack.enter_async_context(port)
        settle_memory()
        log.info("service_ready", service=name)
        await until_signal()
        log.info("service_stopping", service=name)


async def provision_bus(bus: Bus, settings: BusSettings) -> None:
    """Make the streams and buckets, once JetStream answers.

    Raises:
        StartError: It does not answer in time, or has not as many servers as the settings want copies.
    """
    try:
        await provision_within(bus.jetstream, settings.connect_timeout_s, replicas=settings.replicas)
    except ProvisionError as error:
        raise StartError(str(error)) from error
    except (NatsError, TimeoutError) as error:
        raise StartError(f"the streams and buckets of NATS cannot be made ({error!r}); see the log of NATS") from error


@asynccontextmanager
async def measure_storage(bus: Bus, settings: BusSettings) -> AsyncGenerator[Bus]:
    """Yield the bus with the room that NATS has for new data, which is measured while the context is open.

    Raises:
        StartError: The directory of the settings cannot be measured.
    """
    disk = None if settings.disk is None else DiskSpace(settings.disk, name="NATS")
    try:
        _ = disk and disk.read_free()
    except OSError as error:
        raise StartError(f"SKILLBUS_NATS_DISK: {settings.disk} cannot be measured ({error.strerror})") from error
    room = JetStreamRoom(bus.client, bus.jetstream_api, disk)
    steps = {"measure_jetstream": room.measure}
    measuring = PeriodicJob(steps, every_s=_MEASURE_EVERY_S, postponed_by=(NatsError,))
    async with run_in_background(measuring):
        yield replace(bus, disk=room)


@asynccontextmanager
async def open_when_provisioned(
    open_service: OpenService, bus: Bus, settings: BusSettings
) -> AsyncGenerator[HealthSource]:
    """Open a service, again and again while the service that makes streams and buckets has not made those it needs.

    Raises:
        StartError: One was still missing after `settings.connect_timeout_s`.
    """
    until = time.monotonic() + settings.connect_timeout_s
    is_waiting = False
    while True:
        async with AsyncExitStack() as stack:
            try:
                service = await stack.enter_async_context(open_service(bus))
            except (RequestError, NotFoundError) as error:
                if isinstance(error, RequestError) and error.code is not ErrorCode.NOT_FOUND:
                    raise
                if time.monotonic() > until:
                    raise StartError(
                        f"a stream or bucket is missing ({error}): start the indexer, which makes them, or set "
                        "SKILLBUS_NATS_PROVISION=true"
                    ) from error
                if not is_waiting:
                    log.warning("waiting_for_streams", reason=str(error))
                is_waiting = True
            else:
                yield service
                return
        await asyncio.sleep(_PROVISIONED_POLL_S)


@asynccontextmanager
async def _open_operations_port(
    host: str, port: int, service: HealthSource, registry: CollectorRegistry
) -> AsyncGenerator[None]:
    """Serve `/healthz`, `/readyz` and `/metrics` of the process while the context is open.

    Raises:
        StartError: The port is in use, or this process may not listen there.
    """

    async def answer_path(path: str) -> tuple[int, str, bytes]:
        if path == "/healthz":
            return 200, "text/plain", b"ok\n"
        if path == "/readyz":
            health = await service.health()
            return (200 if health.ready else 503), JSON, health.model_dump_json().encode()
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(registry)
        return 404, "text/plain", b"the paths are /healthz, /readyz and /metrics\n"

    async def app(scope: Scope, _: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        status, kind, body = await answer_path(scope["path"])
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    try:
        async with serve_http(app, host, port):
            yield
    except PortInUseError as error:
        raise StartError(f"SKILLBUS_OPERATIONS_PORT: {error}") from error


def configure_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Set up the logging of this process: structlog, as text on a terminal and as JSON lines elsewhere."""
    out = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
    ]
    if out.isatty():
        final: list[Processor] = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        final = [_TRACEBACKS, structlog.processors.JSONRenderer(ensure_ascii=False)]
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    _capture_standard_logging(shared, final, numeric, out)


def _capture_standard_logging(shared: list[Processor], final: list[Processor], level: int, out: TextIO) -> None:
    """Render log records of libraries in the same form, from level warning on."""
    handler = logging.StreamHandler(out)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final]
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _add_trace(_: object, __: str, event: EventDict) -> EventDict:
    if trace := traceparent.get():
        event["traceparent"] = trace
    return event
