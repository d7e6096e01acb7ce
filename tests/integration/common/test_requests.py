"""The request lane on a real nats-server."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import JSON, MSGPACK, FloatMatrix, Message
from skillbus.standalone.nats_server import NatsServer


class Say(Message):
    text: str


class Keyed(Message):
    named: dict[str, int]


class Said(Message):
    text: str
    matrix: FloatMatrix | None = None


SAY = Endpoint("parrot", "say_text", Say, Said, "Repeat a text.", timeout_s=5)
Handler = Callable[[Say], Awaitable[Said]]


async def repeat(request: Say) -> Said:
    return Said(text=request.text)


@asynccontextmanager
async def parrot(bus: Bus, handler: Handler = repeat, permits: int = 8) -> AsyncGenerator[Responder]:
    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(SAY, handler, permits))
    try:
        yield responder
    finally:
        await responder.drain()


async def code_of(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.code


async def test_a_request_is_answered(bus: Bus) -> None:
    async with parrot(bus):
        assert await bus.caller.call(SAY, Say(text="你好")) == Said(text="你好")


async def test_a_service_has_started_when_the_server_knows_its_endpoints(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that comes right then would find nobody: nats-py writes a PING ahead of what waits to be written."""
    written = list[bytes]()
    transport = bus.client._transport
    assert transport is not None
    write, write_lines = transport.write, transport.writelines

    def record(payload: bytes) -> None:
        written.append(payload)
        write(payload)

    def record_lines(payload: list[bytes]) -> None:
        written.extend(payload)
        write_lines(payload)

    monkeypatch.setattr(transport, "write", record)
    monkeypatch.setattr(transport, "writelines", record_lines)
    async with parrot(bus):
        verbs = [line.split(maxsplit=1)[0] for line in written]
    assert verbs.count(b"SUB") > 1
    assert verbs[-1] == b"PING"


async def test_nobody_there_is_said_at_once(bus: Bus) -> None:
    start = time.monotonic()
    assert await code_of(bus.caller.call(SAY, Say(text="x"))) == ErrorCode.UNAVAILABLE
    assert time.monotonic() - start < 1


async def test_an_error_of_the_handler_reaches_the_caller_with_its_code_and_details(bus: Bus) -> None:
    async def refuse(_: Say) -> Said:
        raise RequestError(ErrorCode.CONFLICT, "taken", details={"by": "someone"})

    async with parrot(bus, refuse):
        with pytest.raises(RequestError) as caught:
            await bus.caller.call(SAY, Say(text="x"))
    assert (caught.value.code, caught.value.details, caught.value.retryable) == (
        ErrorCode.CONFLICT,
        {"by": "someone"},
        True,
    )


async def test_a_crash_of_the_handler_is_answered_without_its_words(bus: Bus) -> None:
    async def crash(_: Say) -> Said:
        raise ZeroDivisionError("a secret")

    async with parrot(bus, crash):
        with pytest.raises(RequestError) as caught:
            await bus.caller.call(SAY, Say(text="x"))
    assert caught.value.code == ErrorCode.INTERNAL
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("body", [b"{}", b"not json", b'{"text": 3}', b'{"text": "\xff"}', b"[]"])
async def test_a_body_that_breaks_the_contract_is_refused_with_the_field(bus: Bus, body: bytes) -> None:
    async with parrot(bus):
        reply = await bus.client.request(SAY.subject, body, timeout=2)
    assert reply.headers is not None
    assert reply.headers[h.ERROR_CODE] == "400"
    error = json.loads(reply.data)["error"]
    assert error["code"] == ErrorCode.INVALID_REQUEST
    assert error["details"]["fields"]


async def test_unknown_fields_are_ignored(bus: Bus) -> None:
    async with parrot(bus):
        reply = await bus.client.request(SAY.subject, b'{"text": "a", "later": 1}', timeout=2)
    assert json.loads(reply.data)["text"] == "a"


async def test_requests_run_side_by_side_and_one_too_many_is_refused_at_once(bus: Bus) -> None:
    inside = 0
    both_inside, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: Say) -> Said:
        nonlocal inside
        inside += 1
        if inside == 2:
            both_inside.set()
        await go_on.wait()
        return Said(text=request.text)

    async with parrot(bus, wait, permits=2), asyncio.timeout(5):
        first = asyncio.create_task(bus.caller.call(SAY, Say(text="1")))
        second = asyncio.create_task(bus.caller.call(SAY, Say(text="2")))
        await both_inside.wait()
        assert await code_of(bus.caller.call(SAY, Say(text="3"))) == ErrorCode.OVERLOADED
        go_on.set()
        assert {(await first).text, (await second).text} == {"1", "2"}


async def test_an_adaptive_route_works_on_few_requests_lets_some_wait_and_refuses_the_rest_at_once(bus: Bus) -> None:
    go_on = asyncio.Event()
    inside = most_inside = 0

    async def wait(request: Say) -> Said:
        nonlocal inside, most_inside
        inside += 1
        most_inside = max(most_inside, inside)
        await go_on.wait()
        inside -= 1
        return Said(text=request.text)

    async def ask() -> RequestError | None:
        try:
            await bus.caller.call(SAY, Say(text="x"), timeout_s=30)
        except RequestError as error:
            go_on.set()
            return error
        return None

    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(SAY, wait, adapts=True))
    async with asyncio.timeout(20):
        outcomes = await asyncio.gather(*(ask() for _ in range(200)))
    await responder.drain()
    refused = [error for error in outcomes if error is not None]
    assert {(error.code, error.retryable, error.details["limit_of"]) for error in refused} == {
        (ErrorCode.OVERLOADED, True, "server")
    }
    assert all(int(str(error.details["retry_after_s"])) >= 1 for error in refused)
    assert most_inside < 64
    assert 0 < len(refused) < 200


async def test_a_caller_waits_no_longer_than_it_said(bus: Bus) -> None:
    async def never(_: Say) -> Said:
        await asyncio.Event().wait()
        raise AssertionError

    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(SAY, never))
    assert await code_of(bus.caller.call(SAY, Say(text="x"), timeout_s=0.05)) == ErrorCode.DEADLINE_EXCEEDED


async def test_work_whose_deadline_has_passed_is_not_begun(bus: Bus) -> None:
    begun = False

    async def note(request: Say) -> Said:
        nonlocal begun
        begun = True
        return Said(text=request.text)

    async with parrot(bus, note):
        headers = {h.DEADLINE_MS: str(int(time.time() * 1000) - 1)}
        reply = await bus.client.request(SAY.subject, b'{"text": "a"}', timeout=2, headers=headers)
    assert json.loads(reply.data)["error"]["code"] == ErrorCode.DEADLINE_EXCEEDED
    assert not begun


async def test_a_request_made_for_a_request_inherits_its_deadline_and_trace(bus: Bus) -> None:
    seen: dict[str, object] = {}

    async def note(request: Say) -> Said:
        seen["deadline"], seen["trace"] = h.deadline.get(), h.traceparent.get()
        return Said(text=request.text)

    async with parrot(bus, note):
        before = time.time()
        token = h.deadline.set(before + 1), h.traceparent.set("00-abc-def-01")
        await bus.caller.call(SAY, Say(text="x"), timeout_s=60)
        h.deadline.reset(token[0])
        h.traceparent.reset(token[1])
    assert seen["trace"] == "00-abc-def-01"
    assert isinstance(seen["deadline"], float)
    assert seen["deadline"] <= before + 1.01


@pytest.mark.parametrize(
    ("content_type", "is_read"), [("application/json; charset=utf-8", True), ("text/xml", False), ("", False)]
)
async def test_a_body_of_another_content_type_is_refused(bus: Bus, content_type: str, is_read: bool) -> None:
    async with parrot(bus):
        reply = await bus.client.request(
            SAY.subject, b'{"text": "x"}', timeout=2, headers={h.CONTENT_TYPE: content_type}
        )
    body = json.loads(reply.data)
    assert ("text" in body) == is_read
    if not is_read:
        assert body["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert "application/msgpack" in body["error"]["message"]


async def test_vectors_travel_as_float32_bytes_when_asked_for_by_content_type(bus: Bus) -> None:
    async def matrix(_: Say) -> Said:
        return Said(text="m", matrix=FloatMatrix(dim=2, count=1, data=b"\0\0\x80?\0\0\0@"))

    async with parrot(bus, matrix):
        packed = await bus.client.request(SAY.subject, b'{"text": ""}', timeout=2, headers={h.ACCEPT: MSGPACK})
        plain = await bus.client.request(SAY.subject, b'{"text": ""}', timeout=2)
        read = await bus.caller.call(SAY, Say(text=""), content_type=MSGPACK)
    assert b"\0\0\x80?\0\0\0@" in packed.data
    assert json.loads(plain.data)["matrix"] == [[1.0, 2.0]]
    assert read.matrix is not None
    assert read.matrix.to_rows() == [[1.0, 2.0]]


async def test_a_request_over_the_servers_limit_is_refused_before_it_is_sent(bus: Bus) -> None:
    assert await code_of(bus.caller.call(SAY, Say(text="x" * 2_000_000))) == ErrorCode.PAYLOAD_TOO_LARGE


async def test_a_reply_over_the_servers_limit_is_an_error_and_not_silence(bus: Bus) -> None:
    async def long(_: Say) -> Said:
        return Said(text="x" * 2_000_000)

    async with parrot(bus, long):
        assert await code_of(bus.caller.call(SAY, Say(text="x"))) == ErrorCode.PAYLOAD_TOO_LARGE


async def test_a_service_can_be_discovered_and_counts_its_requests(bus: Bus) -> None:
    async with parrot(bus):
        await bus.caller.call(SAY, Say(text="x"))
        await bus.client.request(SAY.subject, b"no", timeout=2)
        ping = json.loads((await bus.client.request("$SRV.PING.skillbus-parrot", b"", timeout=2)).data)
        info = json.loads((await bus.client.request("$SRV.INFO.skillbus-parrot", b"", timeout=2)).data)
        stats = json.loads((await bus.client.request("$SRV.STATS.skillbus-parrot", b"", timeout=2)).data)
    assert ping["name"] == "skillbus-parrot"
    assert [(e["name"], e["subject"], e["queue_group"]) for e in info["endpoints"]] == [
        ("say_text", "skillbus.v1.parrot.say_text", "parrot")
    ]
    metadata = info["endpoints"][0]["metadata"]
    assert metadata["summary"] == SAY.summary
    assert json.loads(metadata["request_schema"])["properties"].keys() == {"text"}
    assert json.loads(metadata["reply_schema"])["properties"].keys() == {"text", "matrix"}
    endpoint = stats["endpoints"][0]
    assert (endpoint["num_requests"], endpoint["num_errors"]) == (2, 1)
    assert endpoint["processing_time"] > 0


async def test_a_drained_service_answers_what_it_took_and_takes_no_more(bus: Bus, bus_settings: BusSettings) -> None:
    started = asyncio.Event()
    go_on = asyncio.Event()

    async def wait(request: Say) -> Said:
        started.set()
        await go_on.wait()
        return Said(text=request.text)

    async with open_bus(bus_settings, "service", CollectorRegistry()) as service_bus, asyncio.timeout(5):
        responder = Responder(service_bus.client, "parrot", "1.0.0", service_bus.metrics)
        await responder.start(route(SAY, wait))
        taken = asyncio.create_task(bus.caller.call(SAY, Say(text="taken")))
        await started.wait()
        draining = asyncio.create_task(responder.drain())
        await confirm_subscriptions(service_bus.client)
        go_on.set()
        await draining
        assert (await taken).text == "taken"
        assert await code_of(bus.caller.call(SAY, Say(text="late"))) == ErrorCode.UNAVAILABLE


async def test_a_request_in_flight_is_answered_although_the_server_is_killed(bus: Bus, nats_server: NatsServer) -> None:
    """The supervisor starts the server again on its port; the request is sent again."""
    started = asyncio.Event()
    calls = 0

    async def first_never(request: Say) -> Said:
        nonlocal calls
        calls += 1
        started.set()
        if calls == 1:
            await asyncio.Event().wait()
        return Said(text=request.text)

    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(SAY, first_never))
    async with asyncio.timeout(10):
        asked = asyncio.create_task(bus.caller.call(SAY, Say(text="x"), timeout_s=9))
        await started.wait()
        assert nats_server.pid is not None
        os.kill(nats_server.pid, signal.SIGKILL)
        assert (await asked).text == "x"


async def test_a_request_that_is_not_idempotent_fails_and_is_not_sent_again_when_the_server_is_killed(
    bus: Bus, nats_server: NatsServer
) -> None:
    once = Endpoint("parrot", "say_once", Say, Said, "Repeat a text.", timeout_s=9, idempotent=False)
    started, calls = asyncio.Event(), list[str]()

    async def never(request: Say) -> Said:
        calls.append(request.text)
        started.set()
        return await asyncio.Future[Said]()

    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(once, never), route(SAY, repeat))
    async with asyncio.timeout(20):
        asked = asyncio.create_task(bus.caller.call(once, Say(text="x")))
        await started.wait()
        assert nats_server.pid is not None
        os.kill(nats_server.pid, signal.SIGKILL)
        assert await code_of(asked) == ErrorCode.UNAVAILABLE
        await bus.caller.call(SAY, Say(text="a request after it, on the same connection"))
    assert calls == ["x"]


async def test_an_error_that_repeats_a_large_request_is_cut_and_answered(bus: Bus) -> None:
    async def refuse(request: Say) -> Said:
        raise RequestError(ErrorCode.NOT_FOUND, f"no {request.text}", details={"text": request.text})

    async with parrot(bus, refuse):
        with pytest.raises(RequestError) as caught:
            await bus.caller.call(SAY, Say(text="k" * 900_000))
    assert caught.value.code is ErrorCode.NOT_FOUND
    assert len(caught.value.message) < 10_000


async def test_a_field_with_a_large_name_is_answered(bus: Bus) -> None:
    request = Endpoint("parrot", "say_text", Keyed, Said, "Repeat a text.", timeout_s=5)
    responder = Responder(bus.client, "parrot", "1.0.0", bus.metrics)
    await responder.start(route(request, lambda _: repeat(Say(text=""))))
    try:
        body = json.dumps({"named": {"k" * 400_000: "no number"}}).encode()
        reply = await bus.client.request(request.subject, body, timeout=5)
    finally:
        await responder.drain()
    assert (reply.headers or {})[h.ERROR_CODE] == "400"


async def test_a_deadline_beyond_every_clock_is_refused(bus: Bus) -> None:
    async with parrot(bus):
        reply = await bus.client.request(SAY.subject, b'{"text": ""}', headers={h.DEADLINE_MS: "9" * 400})
    assert (reply.headers or {})[h.ERROR_CODE] == "400"


async def test_a_reply_is_called_what_it_is(bus: Bus) -> None:
    async with parrot(bus):
        for asked in ({h.ACCEPT: "text/html"}, {h.CONTENT_TYPE: "application/json"}):
            reply = await bus.client.request(SAY.subject, b'{"text": "<b>"}', headers=asked)
            assert json.loads(reply.data)["text"] == "<b>"
            assert (reply.headers or {}).get(h.CONTENT_TYPE, JSON) == JSON
