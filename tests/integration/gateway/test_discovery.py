"""Discovery of services on a real bus."""

from contextlib import AsyncExitStack

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.adapters.bus_discovery import BusDiscovery


async def test_every_instance_of_our_services_is_found_with_its_version_and_nothing_else(
    bus: Bus, services: Bus
) -> None:
    async with AsyncExitStack() as stack:
        for name, version in (("learner", "1.2.0"), ("learner", "1.3.0"), ("agent", "1.2.0"), ("parrot", "9.0.0")):
            responder = Responder(services.client, name, version, services.metrics)
            stack.push_async_callback(responder.drain)
            await responder.start()
        found = await BusDiscovery(bus.client).list_instances()
    assert sorted((one.service, one.version) for one in found) == [
        ("agent", "1.2.0"),
        ("learner", "1.2.0"),
        ("learner", "1.3.0"),
    ]
    assert all(one.started_at.tzinfo is not None for one in found)
    assert await BusDiscovery(bus.client).list_instances() == ()


async def test_without_a_connection_nothing_is_found_and_the_error_says_so(services: Bus) -> None:
    await services.client.close()
    with pytest.raises(RequestError) as raised:
        await BusDiscovery(services.client).list_instances()
    assert raised.value.code is ErrorCode.UNAVAILABLE
