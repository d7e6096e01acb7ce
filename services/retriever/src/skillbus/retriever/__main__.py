"""`python -m skillbus.retriever`: the retriever alone, against `SKILLBUS_NATS_URL` and `SKILLBUS_QDRANT_URL`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import run
from skillbus.common.service import ServiceHealth
from skillbus.retriever.adapters.watched_store import watch_writes
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors.opening import open_qdrant_server


@asynccontextmanager
async def _open(bus: Bus) -> AsyncGenerator[ServiceHealth]:
    async with (
        open_qdrant_server() as server,
        watch_writes(server, bus.client) as store,
        open_retriever(bus, RetrieverSettings(), store) as health,
    ):
        yield health


if __name__ == "__main__":
    run(_open, "retriever")
