"""Three NATS servers: a list of addresses, copies of all data, and the death of one server."""

import asyncio
import itertools
import time
from contextlib import AsyncExitStack
from pathlib import Path

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.common.runner import provision_bus
from skillbus.common.testing import eventually
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.message import Message

from ...nats_cluster import SERVERS, run_nats_cluster

STORED = 200
WAIT_S = 30.0
SOON_S = 5.0
"""Far below the deadline of the requests, and far above the second that is the aim: the machine may be busy."""


class Question(Message):
    text: str


READ = Endpoint("twin", "read_text", Question, Question, "Repeat a text.", is_read=True, timeout_s=30)


async def repeat(request: Question) -> Question:
    return request


async def list_copies(jetstream: JetStreamContext) -> dict[str, int]:
    """Copies of each stream that hold all of its messages."""
    streams = await jetstream.streams_info()
    return {
        str(stream.config.name): 1
        + sum(bool(copy.current) for copy in (stream.cluster and stream.cluster.replicas) or ())
        for stream in streams
    }


async def store_many(bus: Bus, count: int) -> None:
    """Store messages one after the other; those that are not acknowledged are sent again."""
    for number in range(count):
        stored = False
        while not stored:
            try:
                await bus.jetstream.publish(
                    "skillbus.evt.test.stored.x", str(number).encode(), timeout=1, headers={"Nats-Msg-Id": str(number)}
                )
                stored = True
            except (NatsError, TimeoutError):
                await asyncio.sleep(0.05)


async def ask_many(bus: Bus, until: "asyncio.Task[None]") -> float:
    """Send requests one after the other; the seconds that the slowest one took."""
    slowest = 0.0
    for number in itertools.count():
        if until.done():
            break
        start = time.monotonic()
        assert (await bus.caller.call(READ, Question(text=str(number)))).text == str(number)
        slowest = max(slowest, time.monotonic() - start)
    return slowest


async def test_a_server_of_a_cluster_dies_and_no_read_fails_and_nothing_is_lost(tmp_path: Path) -> None:
    async with run_nats_cluster(tmp_path) as cluster, AsyncExitStack() as stack:

        async def connect(url: str) -> Bus:
            return await stack.enter_async_context(open_bus(BusSettings(url=url), "test", CollectorRegistry()))

        bus = await connect(cluster.url)
        await provision_bus(bus, BusSettings())
        assert set((await list_copies(bus.jetstream)).values()) == {1}
        await provision_bus(bus, BusSettings(replicas=SERVERS))
        await eventually(lambda: list_copies(bus.jetstream), lambda copies: set(copies.values()) == {SERVERS}, WAIT_S)
        # The caller and one of two replicas are connected to the server that dies.
        dying = next(address for address in cluster.addresses if _is_connected_to(bus, address))
        other = next(address for address in cluster.addresses if address != dying)
        for served in (await connect(dying), await connect(other)):
            await Responder(served.client, "twin", "1.0.0", served.metrics).start(route(READ, repeat))
        storing = asyncio.create_task(store_many(bus, STORED))
        asking = asyncio.create_task(ask_many(bus, until=storing))
        await eventually(lambda: count_stored(bus), lambda count: count >= STORED // 4, WAIT_S)
        cluster.kill(dying)
        await storing
        assert await asking < SOON_S
        assert await count_stored(bus) == STORED
        assert not _is_connected_to(await connect(cluster.url), dying)


async def count_stored(bus: Bus) -> int:
    return (await bus.jetstream.stream_info("SKILLBUS_EVT")).state.messages


def _is_connected_to(bus: Bus, address: str) -> bool:
    url = bus.client.connected_url
    return url is not None and url.geturl() == address
