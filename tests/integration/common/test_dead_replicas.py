"""Requests while a replica dies, hangs or is overloaded: reads are sent once more, and the first answer wins."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from operator import le

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from skillbus.common import hedging
from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Message

DEADLINE_S = 30.0
SOON_S = 5.0
"""Far below the deadline, and far above the second that is the aim: the machine of these tests may be busy."""


class Ask(Message):
    text: str


READ = Endpoint("twin", "read_text", Ask, Ask, "Repeat a text.", is_read=True, timeout_s=DEADLINE_S)
WRITE = Endpoint("twin", "write_text", Ask, Ask, "Repeat a text.", timeout_s=DEADLINE_S)

REPLICA = """
import asyncio
from prometheus_client import CollectorRegistry
from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.message import Message

class Ask(Message):
    text: str

READ = Endpoint("twin", "read_text", Ask, Ask, "Repeat a text.", is_read=True)

async def answer(request: Ask) -> Ask:
    await asyncio.sleep(0.01)
    return request

async def main() -> None:
    async with open_bus(BusSettings(), "twin", CollectorRegistry()) as bus:
        await Responder(bus.client, "twin", "1.0.0", bus.metrics).start(route(READ, answer))
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def replica(settings: BusSettings) -> AsyncGenerator[asyncio.subprocess.Process]:
    assert settings.token is not None
    address = {"SKILLBUS_NATS_URL": settings.url, "SKILLBUS_NATS_TOKEN": settings.token.get_secret_value()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REPLICA, env=os.environ | address, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are sent soon, and as many as when it is known how long the endpoint takes."""
    monkeypatch.setattr(hedging, "_FLOOR_S", 0.02)
    monkeypatch.setattr(hedging, "_KNOWN_AFTER", 0)


@pytest.fixture
async def caller(bus_settings: BusSettings, nats_server: object) -> AsyncGenerator[Bus]:
    async with open_bus(bus_settings, "caller", CollectorRegistry()) as opened:
        yield opened


@asynccontextmanager
async def twin(bus: Bus, handle: Callable[[Ask], Awaitable[Ask]], permits: int = 8) -> AsyncGenerator[Responder]:
    responder = Responder(bus.client, "twin", "1.0.0", bus.metrics)
    await responder.start(route(READ, handle, permits), route(WRITE, handle, permits))
    try:
        yield responder
    finally:
        await responder.drain()


class LateFirst:
    """Answers its first request when it is told to, and the others at once."""

    def __init__(self) -> None:
        self.requests = 0
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Ask) -> Ask:
        self.requests += 1
        if self.requests == 1:
            self.begun.set()
            await self.go_on.wait()
            return Ask(text="late")
        return request


async def test_no_read_waits_for_a_replica_that_hangs_or_is_killed(caller: Bus, bus_settings: BusSettings) -> None:
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(replica(bus_settings)) for _ in range(2)]
        for process in (first, second):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        answered, slowest = 0, 0.0

        async def ask() -> None:
            nonlocal answered, slowest
            for number in range(100):
                start = time.monotonic()
                assert (await caller.caller.call(READ, Ask(text=str(number)))).text == str(number)
                slowest = max(slowest, time.monotonic() - start)
                answered += 1

        async def count_answered() -> int:
            return answered

        async def disturb() -> None:
            for number, after in ((signal.SIGSTOP, 200), (signal.SIGCONT, 400), (signal.SIGKILL, 600)):
                await eventually(count_answered, partial(le, after), wait_s=DEADLINE_S)
                first.send_signal(number)

        await asyncio.gather(disturb(), *(ask() for _ in range(8)))
    assert slowest < SOON_S


async def test_the_answer_of_a_copy_counts_and_the_late_one_is_dropped_in_silence(caller: Bus, soon: None) -> None:
    late = LateFirst()
    async with twin(caller, late.answer):
        with capture_logs() as logs:
            assert (await caller.caller.call(READ, Ask(text="x"))).text == "x"
            late.go_on.set()
            assert (await caller.caller.call(READ, Ask(text="y"))).text == "y"
    assert [line["event"] for line in logs] in ([], ["replica_does_not_answer"])


async def test_a_write_is_sent_once(caller: Bus, soon: None) -> None:
    late = LateFirst()
    async with twin(caller, late.answer):
        asked = asyncio.create_task(caller.caller.call(WRITE, Ask(text="x")))
        await late.begun.wait()
        await asyncio.sleep(0.1)  # the time of several copies
        late.go_on.set()
        assert (await asked).text == "late"
    assert late.requests == 1


async def test_a_request_to_a_service_of_the_same_process_is_sent_once(caller: Bus, soon: None) -> None:
    late = LateFirst()
    responder = Responder(caller.client, "twin", "1.0.0", caller.metrics, caller.local_endpoints)
    await responder.start(route(READ, late.answer))
    asked = asyncio.create_task(caller.caller.call(READ, Ask(text="x")))
    await late.begun.wait()
    await asyncio.sleep(0.1)
    late.go_on.set()
    assert (await asked).text == "late"
    await responder.drain()
    assert late.requests == 1


async def test_an_overloaded_service_gets_no_further_copies_and_may_still_answer_the_first(
    caller: Bus, soon: None
) -> None:
    late = LateFirst()
    async with twin(caller, late.answer, permits=1):
        asked = asyncio.create_task(caller.caller.call(READ, Ask(text="x")))
        refused = await eventually(lambda: _count(caller, "read_text"), lambda count: count == 2)
        await asyncio.sleep(0.1)
        assert await _count(caller, "read_text") == refused == 2
        late.go_on.set()
        assert (await asked).text == "late"
    assert late.requests == 1


async def _count(bus: Bus, endpoint: str) -> int:
    """Requests that an endpoint has received, refused ones among them."""
    reply = await bus.client.request("$SRV.STATS.skillbus-twin", b"", timeout=2)
    requests: dict[str, int] = {of["name"]: of["num_requests"] for of in json.loads(reply.data)["endpoints"]}
    return requests[endpoint]


async def test_the_last_replica_answers_while_it_stops_although_copies_find_nobody(
    caller: Bus, bus_settings: BusSettings, soon: None
) -> None:
    late = LateFirst()
    async with open_bus(bus_settings, "service", CollectorRegistry()) as service:
        responder = Responder(service.client, "twin", "1.0.0", service.metrics)
        await responder.start(route(READ, late.answer), route(WRITE, late.answer))
        asked = asyncio.create_task(caller.caller.call(READ, Ask(text="x")))
        await late.begun.wait()
        draining = asyncio.create_task(responder.drain())
        await confirm_subscriptions(service.client)
        with pytest.raises(RequestError, match="No twin is running"):
            await caller.caller.call(WRITE, Ask(text="y"))
        await asyncio.sleep(0.1)
        assert not asked.done()
        late.go_on.set()
        assert (await asked).text == "late"
        await draining
    assert late.requests == 1
