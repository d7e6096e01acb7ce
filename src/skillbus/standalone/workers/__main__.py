"""`python -m skillbus.standalone.workers`: a worker, which `skillbus up --workers` starts.

It has a gateway, a retriever and an embedder: the services that work for searches and keep nothing.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Metric
from pydantic import SecretStr
from starlette.types import ASGIApp

from skillbus.common.background import run_in_background
from skillbus.common.bus.connection import BusSettings, BusUnreachableError, open_bus
from skillbus.common.bus.disk_space import DiskSpace
from skillbus.common.http_server import TlsFiles, serve_http
from skillbus.common.runner import StartError, configure_logging, run_loop, settle_memory, until_signal
from skillbus.common.service import HealthSource
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.adapters.mcp.endpoint import MCP_PATH
from skillbus.gateway.wiring import GatewayGroup, open_gateway
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.settings import COPIES_FOLDER, StandalonePlan
from skillbus.standalone.storage import make_measuring_job
from skillbus.standalone.workers import pool
from skillbus.standalone.workers.channel import ChannelClosedError, ProcessChannel, open_channel
from skillbus.standalone.workers.forwarded_app import ForwardedRequests, ForwardingLayer
from skillbus.standalone.workers.store_copy import StoreCopy
from skillbus.vectors import open_vector_store

_MAIN_PATHS: Final = frozenset({MCP_PATH})
"""Paths that the main process answers: an MCP session lives in one process, and its next request comes anywhere."""

_MODEL_WAIT_S: Final = 10.0
_MODEL_POLL_S: Final = 0.05

log = structlog.get_logger(__name__)


def main(arguments: Sequence[str]) -> None:
    """Serve until SIGTERM, or until the process that started this one has ended."""
    number, channel = (int(word) for word in arguments)
    try:
        run_loop(serve_worker(number, socket.socket(fileno=channel)))
    except (StartError, BusUnreachableError) as error:
        sys.exit(f"skillbus worker {number}: {error}")
    except ChannelClosedError:
        sys.exit(0)  # the main process has ended during the start


async def serve_worker(number: int, end: socket.socket) -> None:
    """Serve at the address of the process at the other end of a channel, with a copy of its store."""
    structlog.contextvars.bind_contextvars(worker=number)
    registry, forwarded = CollectorRegistry(), ForwardedRequests()
    copy = StoreCopy(partial(open_vector_store, None))

    async def collect_metrics() -> list[Metric]:
        return list(registry.collect())

    async def answer_ping() -> None:
        return None

    async with AsyncExitStack() as stack:
        own = {pool.COLLECT_METRICS: collect_metrics, pool.PING: answer_ping}
        handlers = {**own, **forwarded.list_handlers(), **copy.list_handlers()}
        channel = forwarded.channel = await stack.enter_async_context(open_channel(end, handlers))
        plan: StandalonePlan = await channel.call(pool.GET_PLAN)
        settings = plan.settings
        configure_logging(settings.log_level)
        disk = DiskSpace(settings.data, limit_bytes=settings.disk_max)
        await stack.enter_async_context(run_in_background(make_measuring_job(disk)))
        bus_settings = BusSettings(url=plan.nats.url, token=SecretStr(plan.nats.token))
        connection = open_bus(bus_settings, f"skillbus-worker-{number}", registry, disk, has_replicas=True)
        bus = await stack.enter_async_context(connection)
        embedder = EmbedderSettings(data=settings.data).open_loopback()
        embedding = await stack.enter_async_context(open_embedder(bus, embedder))
        path = settings.data / COPIES_FOLDER / str(number)
        store = await stack.enter_async_context(copy.open_copy(channel, path))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(data=settings.data), store))

        def serve(app: ASGIApp, tls: TlsFiles | None) -> AbstractAsyncContextManager[str]:
            layer = ForwardingLayer(app, _MAIN_PATHS, forwarded)
            # Starlette and uvicorn declare different types for ASGI messages; they are the same at run time.
            return serve_http(layer, plan.gateway.host, plan.gateway.port, tls, is_shared=True)  # type: ignore[arg-type]

        group = GatewayGroup(
            serve, lambda: channel.call(pool.CHECK_PROCESSES), lambda: channel.call(pool.RENDER_METRICS)
        )
        await stack.enter_async_context(open_gateway(bus, plan.gateway, plan.checked, group))
        await _wait_for_model(embedding)
        settle_memory()
        await channel.call(pool.REPORT_READY, os.getpid())
        await _wait_for_end(channel)
        log.info("worker_stopping")


async def _wait_for_model(embedder: HealthSource) -> None:
    """Wait until the default model is loaded, but not for one that cannot be: searches by words work without."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_MODEL_WAIT_S):
            while not (await embedder.health()).ready:  # noqa: ASYNC110 (health is asked for, and tells nobody)
                await asyncio.sleep(_MODEL_POLL_S)


async def _wait_for_end(channel: ProcessChannel) -> None:
    waits = [asyncio.ensure_future(until_signal()), asyncio.ensure_future(channel.closed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


if __name__ == "__main__":
    main(sys.argv[1:])
