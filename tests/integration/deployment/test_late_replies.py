"""Permissions and requests that were sent once more: every copy may be answered, also when nobody waits any longer."""

import asyncio

import pytest
from structlog.testing import capture_logs

from skillbus.common import hedging
from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.devices import LIST_HOMES, HomesListed, ListHomes

from ...deployed_bus import DeployedBus


@pytest.mark.parametrize("user", ["gateway", "agent"])  # of the zone of the indexer, and of another one
async def test_a_late_reply_to_a_copy_is_neither_refused_nor_logged(
    bus_of: DeployedBus, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hedging, "_FLOOR_S", 0.02)
    go_on = asyncio.Event()
    requests = 0

    async def answer_the_first_late(request: ListHomes) -> HomesListed:
        nonlocal requests
        requests += 1
        if requests == 1:
            await go_on.wait()
        return HomesListed(homes=(), total=0)

    async with bus_of.open_bus("indexer") as service, bus_of.open_bus(user) as asking:
        responder = Responder(service.client, "indexer", "1.0.0", service.metrics)
        await responder.start(route(LIST_HOMES, answer_the_first_late))
        with capture_logs() as logs:
            await asking.caller.call(LIST_HOMES, ListHomes())
            assert requests >= 2
            go_on.set()
            await responder.drain()
            await confirm_subscriptions(service.client)  # a refusal would have come by now
            await confirm_subscriptions(asking.client)
    assert {line["event"] for line in logs} <= {"replica_does_not_answer"}


async def test_a_reply_that_is_refused_on_a_new_connection_is_no_warning(bus_of: DeployedBus) -> None:
    """After a reconnect the server no longer knows which requests the service may answer."""
    async with bus_of.open_bus("indexer") as service:
        with capture_logs() as logs:
            await service.client.publish("_INBOX_gateway.before.1", b"{}")
            await confirm_subscriptions(service.client)
            await eventually(lambda: asyncio.sleep(0, logs), bool)
    assert [(line["event"], line["log_level"]) for line in logs] == [("late_reply_dropped", "info")]
