"""A service that starts before the one that makes streams and buckets."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from nats.js.errors import NotFoundError
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from structlog.testing import capture_logs

from skillbus.common.bus.connection import Bus, BusSettings, BusUnreachableError, open_bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.provision import provision
from skillbus.common.runner import StartError, open_when_provisioned, provision_bus
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


async def test_several_copies_on_a_single_server_are_refused_in_one_line(
    empty_bus: Bus, bus_settings: BusSettings
) -> None:
    with pytest.raises(
        StartError, match=r"SKILLBUS_NATS_REPLICAS=3 needs a NATS cluster of at least 3.*set 1"
    ) as error:
        await provision_bus(empty_bus, bus_settings.model_copy(update={"replicas": 3}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("replicas", ["0", "2", "7", "x"])
def test_the_number_of_copies_is_odd(monkeypatch: pytest.MonkeyPatch, replicas: str) -> None:
    monkeypatch.setenv("SKILLBUS_NATS_REPLICAS", replicas)
    with pytest.raises(ValidationError, match="replicas"):
        BusSettings()


async def test_a_dead_server_of_a_list_does_not_keep_a_service_from_connecting(bus_settings: BusSettings) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = f"nats://127.0.0.1:{nobody.getsockname()[1]}"
        for url in (f"{dead}, {bus_settings.url}", f"{bus_settings.url},{dead}"):
            settings = bus_settings.model_copy(update={"url": url})
            async with open_bus(settings, "test", CollectorRegistry()) as opened:
                assert opened.client.is_connected


async def test_unreachable_servers_are_named_without_their_passwords() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        settings = BusSettings(
            url=f"nats://me:hush@127.0.0.1:{port},nats://hush@localhost:{port}", connect_timeout_s=0.3
        )
        with pytest.raises(BusUnreachableError, match=f"at nats://127.0.0.1:{port}, nats://localhost:{port}:") as error:
            async with open_bus(settings, "test", CollectorRegistry()):
                pass
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["nats://a,", ",", "nats://a:4222,http://b", "nats://a:x", "nats://a:0", "nats://a/b", "nats://", "a b", "a;b:1"],
)
def test_each_address_is_checked(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SKILLBUS_NATS_URL", url)
    with pytest.raises(ValidationError, match="not of the form nats://HOST:PORT"):
        BusSettings()


@pytest.mark.parametrize(
    "url",
    ["nats://a:4222", "a", "a:4222", "tls://a", "nats://token@a:1,nats://u:p@b:2", "nats://[::1]:4222, nats://b/"],
)
def test_addresses_have_the_forms_that_nats_knows(url: str) -> None:
    assert BusSettings(url=url).addresses == tuple(part.strip() for part in url.split(","))
