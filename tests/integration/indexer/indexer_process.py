"""An indexer in a process of its own, which a test can kill: `python indexer_process.py URL TOKEN DIRECTORY`."""

import asyncio
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import open_vector_store


async def main(url: str, token: str, directory: Path) -> None:
    settings = IndexerSettings(data=directory / "data", reconcile_every_s=3600, switch_lease_s=1)
    bus_settings = BusSettings(url=url, token=SecretStr(token))
    async with (
        open_bus(bus_settings, "indexer", CollectorRegistry()) as bus,
        open_vector_store(None, directory / "vectors") as store,
        open_indexer(bus, settings, store),
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
