"""Requests to a service of the same process: as over the server, but for the way."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.disk_space import DiskSpace
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty, Message


class Say(Message):
    text: str


SAY = Endpoint("parrot", "say_text", Say, Say, "Repeat a text.", timeout_s=5)
Handler = Callable[[Say], Awaitable[Say]]


async def repeat(request: Say) -> Say:
    return request


@asynccontextmanager
async def parrot(bus: Bus, handler: Handler = repeat, permits: int = 8) -> AsyncGenerator[Responder]:
    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics, bus.local_endpoints)
    await responder.start(route(SAY, handler, permits))
    try:
        yield responder
    finally:
        await responder.drain()


def ask(bus: Bus, text: str = "x", timeout_s: float | None = None) -> Awaitable[Say]:
    return bus.caller.call(SAY, Say(text=text), timeout_s=timeout_s, allow_local=True)


async def code_of(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.code


def served(bus: Bus, code: str) -> float | None:
    labels = {"service": "parrot", "endpoint": "say_text", "code": code}
    return bus.metrics.registry.get_sample_value("skillbus_requests_total", labels)


async def test_a_request_is_handed_over_as_it_is_where_the_caller_says_so(bus: Bus) -> None:
    request = Say(text="你好")
    async with parrot(bus):
        assert await bus.caller.call(SAY, request, allow_local=True) is request
        assert await bus.caller.call(SAY, request) is not request


async def test_it_is_counted_as_any(bus: Bus) -> None:
    async with parrot(bus):
        for _ in range(3):
            await ask(bus)
        await bus.caller.call(SAY, Say(text="x"))
        assert served(bus, "ok") == 4
        stats = await bus.client.request("$SRV.STATS.skillbus-parrot", b"", timeout=2)
    assert json.loads(stats.data)["endpoints"][0]["num_requests"] == 4


async def test_without_such_a_service_the_bus_is_asked(bus: Bus) -> None:
    assert await code_of(ask(bus)) is ErrorCode.UNAVAILABLE


async def test_a_service_that_has_stopped_takes_nothing_more(bus: Bus) -> None:
    async with parrot(bus):
        assert (await ask(bus)).text == "x"
    assert await code_of(ask(bus)) is ErrorCode.UNAVAILABLE


async def test_of_two_that_answer_the_same_the_one_that_stops_leaves_the_other(bus: Bus) -> None:
    async with parrot(bus):
        async with parrot(bus):
            pass
        assert (await ask(bus)).text == "x"


async def test_an_error_comes_with_its_code_and_details(bus: Bus) -> None:
    async def refuse(_: Say) -> Say:
        raise RequestError(ErrorCode.CONFLICT, "taken", details={"by": "someone"})

    async with parrot(bus, refuse):
        with pytest.raises(RequestError) as caught:
            await ask(bus)
    assert (caught.value.code, caught.value.message, caught.value.details) == (
        ErrorCode.CONFLICT,
        "taken",
        {"by": "someone"},
    )
    assert served(bus, "conflict") == 1


async def test_what_a_handler_did_not_foresee_is_told_as_internal(bus: Bus) -> None:
    async def fail(_: Say) -> Say:
        raise KeyError("secret")

    async with parrot(bus, fail):
        with pytest.raises(RequestError) as caught:
            await ask(bus)
    assert caught.value.code is ErrorCode.INTERNAL
    assert "secret" not in caught.value.message


async def test_when_all_permits_are_taken_it_is_refused(bus: Bus) -> None:
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: Say) -> Say:
        begun.release()
        await go_on.wait()
        return request

    async with parrot(bus, wait, permits=2), asyncio.timeout(5):
        taken = [asyncio.ensure_future(ask(bus)), asyncio.ensure_future(bus.caller.call(SAY, Say(text="far")))]
        for _ in taken:
            await begun.acquire()
        assert await code_of(ask(bus)) is ErrorCode.OVERLOADED
        assert await code_of(bus.caller.call(SAY, Say(text="far"))) is ErrorCode.OVERLOADED
        go_on.set()
        assert [reply.text for reply in await asyncio.gather(*taken)] == ["x", "far"]


async def test_a_caller_waits_no_longer_than_it_said_and_the_work_goes_on(bus: Bus) -> None:
    done, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Say) -> Say:
        await go_on.wait()
        done.set()
        return request

    async with parrot(bus, slow):
        start = time.monotonic()
        assert await code_of(ask(bus, timeout_s=0.1)) is ErrorCode.DEADLINE_EXCEEDED
        assert time.monotonic() - start < 2
        go_on.set()
        async with asyncio.timeout(2):
            await done.wait()


async def test_the_handler_has_the_callers_deadline_and_the_caller_keeps_its_own(bus: Bus) -> None:
    seen: list[float | None] = []

    async def note(request: Say) -> Say:
        seen.append(h.deadline.get())
        return request

    async with parrot(bus, note):
        await ask(bus, timeout_s=3)
    assert seen[0] == pytest.approx(time.time() + 3, abs=1)
    assert h.deadline.get() is None


async def test_work_whose_time_is_over_is_not_begun(bus: Bus) -> None:
    begun: list[Say] = []

    async def note(request: Say) -> Say:
        begun.append(request)
        return request

    async with parrot(bus, note):
        h.deadline.set(time.time() - 1)
        assert await code_of(ask(bus)) is ErrorCode.DEADLINE_EXCEEDED
    assert begun == []


async def test_a_service_that_stops_answers_what_it_took(bus: Bus) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: Say) -> Say:
        started.set()
        await go_on.wait()
        return request

    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics, bus.local_endpoints)
    await responder.start(route(SAY, wait))
    taken = asyncio.ensure_future(ask(bus))
    await started.wait()
    draining = asyncio.create_task(responder.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    go_on.set()
    await draining
    assert (await taken).text == "x"


async def test_a_request_of_another_kind_is_an_error_of_the_program(bus: Bus) -> None:
    wrong = Endpoint("parrot", "say_text", Empty, Say, "Another request at the same subject.", timeout_s=5)
    async with parrot(bus):
        assert await code_of(bus.caller.call(wrong, Empty(), allow_local=True)) is ErrorCode.INTERNAL


@pytest.mark.parametrize("allow_local", [True, False])
async def test_a_request_that_stores_data_is_refused_on_a_full_disk_and_others_are_not(
    bus: Bus, tmp_path: Path, allow_local: bool
) -> None:
    store_text = replace(SAY, name="store_text", stores_data=True)
    full = DiskSpace(tmp_path, limit_bytes=0)
    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics, bus.local_endpoints, disk=full)
    await responder.start(route(SAY, repeat), route(store_text, repeat))
    request = Say(text="x")
    assert await code_of(bus.caller.call(store_text, request, allow_local=allow_local)) is ErrorCode.STORAGE_FULL
    assert await bus.caller.call(SAY, request, allow_local=allow_local) == request
    await responder.drain()


async def test_a_handler_that_fills_the_disk_answers_that_it_is_full(bus: Bus) -> None:
    async def write_to_a_full_device(request: Say) -> Say:
        Path("/dev/full").write_text(request.text)
        return request

    async with parrot(bus, write_to_a_full_device):
        assert await code_of(ask(bus)) is ErrorCode.STORAGE_FULL
