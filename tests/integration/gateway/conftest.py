"""A gateway with real sockets on a real NATS, and a bus of its own for the services behind it."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx
import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.responder import Responder, Route
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import Gateway, open_gateway

Serve = Callable[..., Awaitable[None]]

OWNER_KEY = "an-owner's-key-of-some-length"
OWNER: dict[str, str] = {"Authorization": f"Bearer {OWNER_KEY}"}
"""Header of requests that may do everything."""


def make_settings(**more: object) -> GatewaySettings:
    """Settings of a gateway with an owner's key on a free port."""
    return GatewaySettings.model_validate({"port": 0, "owner_key": OWNER_KEY, **more})


@pytest.fixture
async def gateway(bus: Bus) -> AsyncGenerator[Gateway]:
    async with open_gateway(bus, make_settings()) as opened:
        yield opened


@pytest.fixture
async def http(gateway: Gateway) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, headers=OWNER, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
async def other(bus_settings: BusSettings, gateway: Gateway) -> AsyncGenerator[httpx.AsyncClient]:
    """The owner's client of a second replica, with a connection of its own."""
    async with (
        open_bus(bus_settings, "second", CollectorRegistry()) as bus,
        open_gateway(bus, make_settings()) as opened,
        httpx.AsyncClient(base_url=opened.url, headers=OWNER, trust_env=False) as client,
    ):
        yield client


@pytest.fixture
async def services(bus_settings: BusSettings) -> AsyncGenerator[Bus]:
    """The connection of the services behind the gateway."""
    async with open_bus(bus_settings, "services", CollectorRegistry()) as opened:
        yield opened


@pytest.fixture
async def serve(services: Bus) -> AsyncGenerator[Serve]:
    """Answers endpoints with hand-written handlers until the test is over."""
    responder = Responder(services.client, "test", "0.1.0", services.metrics)

    async def start(*routes: Route) -> None:
        await responder.start(*routes)

    yield start
    await responder.drain()
