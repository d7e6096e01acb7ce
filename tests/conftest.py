"""What all tests share: a real nats-server, and a bus on it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.standalone.nats_server import NatsServer, open_nats_server


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    """A nats-server of its own for each test: it starts in some 30 ms."""
    async with open_nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture
def bus_settings(nats_server: NatsServer) -> BusSettings:
    address = nats_server.address
    return BusSettings(url=address.url, token=SecretStr(address.token))


@pytest.fixture
async def bus(bus_settings: BusSettings) -> AsyncGenerator[Bus]:
    """A connection to a server on which everything is provisioned."""
    async with open_bus(bus_settings, "test", CollectorRegistry()) as opened:
        await provision(opened.jetstream)
        yield opened
