"""A service on the bus for as long as it is open."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder, Route, ToWire, route
from skillbus.common.health import HealthSource
from skillbus.contracts.endpoint import Health, make_health_endpoint
from skillbus.contracts.message import Empty


@asynccontextmanager
async def serve(
    bus: Bus, name: str, routes: Sequence[Route], health: HealthSource, to_wire: ToWire
) -> AsyncGenerator[None]:
    """Answer a service's requests, its `health` among them; leaving the context drains them."""

    async def answer_health(_: Empty) -> Health:
        return await health.health()

    responder = Responder(bus.client, name, version("skillbus-contracts"), bus.metrics, bus.near)
    await responder.start(*routes, route(make_health_endpoint(name), answer_health), to_wire=to_wire)
    try:
        yield
    finally:
        await responder.drain()
