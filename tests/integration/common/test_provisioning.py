"""A service that starts before the one that makes streams and buckets."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from nats.js.errors import NotFoundError
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.provision import provision
from skillbus.common.runner import StartError, open_when_provisioned
from skillbus.common.service import ServiceHealth
from skillbus.contracts.resources import PACKAGES
from skillbus.standalone.nats_server import NatsServer


class Reader:
    """A service that needs a bucket, which is made before its `made_at`th attempt to open it."""

    def __init__(self, made_at: int | None) -> None:
        self._made_at = made_at
        self.attempts = 0

    @asynccontextmanager
    async def open(self, bus: Bus) -> AsyncGenerator[ServiceHealth]:
        self.attempts += 1
        if self.attempts == self._made_at:
            await provision(bus.jetstream)
        await open_object_store(bus, PACKAGES)
        yield ServiceHealth("reader")


@pytest.fixture
async def empty_bus(nats_server: NatsServer, bus_settings: BusSettings) -> AsyncGenerator[Bus]:
    async with open_bus(bus_settings, "test", CollectorRegistry()) as opened:
        yield opened


async def test_it_waits_for_them_and_logs_that_once(empty_bus: Bus, bus_settings: BusSettings) -> None:
    reader = Reader(made_at=3)
    with capture_logs() as logs:
        async with open_when_provisioned(reader.open, empty_bus, bus_settings) as health:
            assert (await health.health()).service == "reader"
    assert reader.attempts == 3
    assert [line["event"] for line in logs] == ["waiting_for_streams"]
    assert PACKAGES.name in logs[0]["reason"]


async def test_what_is_never_made_ends_the_start_in_one_line(empty_bus: Bus, bus_settings: BusSettings) -> None:
    settings = bus_settings.model_copy(update={"connect_timeout_s": 0.01})
    with pytest.raises(StartError, match=r"bucket packages.*: start the indexer") as refused:
        async with open_when_provisioned(Reader(made_at=None).open, empty_bus, settings):
            pass
    assert "\n" not in str(refused.value)


async def test_the_end_of_a_service_that_lost_its_bucket_is_not_taken_for_a_start(
    empty_bus: Bus, bus_settings: BusSettings
) -> None:
    reader = Reader(made_at=1)
    with pytest.raises(NotFoundError):
        async with open_when_provisioned(reader.open, empty_bus, bus_settings):
            raise NotFoundError
    assert reader.attempts == 1
