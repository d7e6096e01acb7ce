"""Entry point `python -m skillbus.indexer`: the indexer alone, with `SKILLBUS_NATS_URL` and `SKILLBUS_QDRANT_URL`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import run
from skillbus.common.service import ServiceHealth
from skillbus.indexer.adapters.announced_writes import AnnouncingVectorStore
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors.opening import open_qdrant_server


@asynccontextmanager
async def _open(bus: Bus) -> AsyncGenerator[ServiceHealth]:
    async with (
        open_qdrant_server() as server,
        open_indexer(bus, IndexerSettings(), AnnouncingVectorStore(server, bus.client)) as health,
    ):
        yield health


if __name__ == "__main__":
    run(_open, "indexer")
