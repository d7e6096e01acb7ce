"""Indexer, retriever and the vector store between them in a process of their own: `python index_process.py DIRECTORY`.

The bus is that of `SKILLBUS_NATS_*`.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import run
from skillbus.common.service import ServiceHealth
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store


@asynccontextmanager
async def _open(bus: Bus) -> AsyncGenerator[ServiceHealth]:
    folder = Path(sys.argv[1])
    async with (
        open_vector_store(None, folder / "vectors") as store,
        open_indexer(bus, IndexerSettings(data=folder), store) as health,
        open_retriever(bus, RetrieverSettings(), store),
    ):
        yield health


if __name__ == "__main__":
    run(_open, "index")
