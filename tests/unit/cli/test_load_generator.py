"""Load in closed and open loops, on a server whose behaviour is known."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice, repeat

import httpx

from skillbus.cli.load.commands import make_new_texts
from skillbus.cli.load.generator import LoadGenerator, LoadSamples
from skillbus.cli.load.http_sender import encode_request, parse_address
from skillbus.cli.load.report import LatencyPercentiles, LoadPhase

Answer = Callable[[int], Awaitable[bytes | None]]
"""Returns the reply to the request of a number, which begins with 1. None is no reply; an empty one closes."""


def reply(status: int = 200, headers: str = "Content-Length: 2\r\n", body: str = "{}") -> bytes:
    return f"HTTP/1.1 {status} X\r\n{headers}\r\n{body}".encode()


@asynccontextmanager
async def open_generator(answer: Answer, timeout_s: float = 10) -> AsyncGenerator[LoadGenerator]:
    """Yield a generator of requests to a server that answers by `answer`."""
    arrived, ended = 0, list[asyncio.Event]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        ended.append(end := asyncio.Event())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1]) for line in head.lower().splitlines() if b"content-length" in line
                )
                await reader.readexactly(length)
                arrived += 1
                given = await answer(arrived)
                writer.write(given or b"")
                if given == b"" or b"close" in (given or b""):
                    break
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        writer.close()
        end.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = httpx.URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/search")
    request = encode_request(httpx.Request("POST", url, json={"query": "x"}))
    generator = LoadGenerator(parse_address(url), repeat(request), timeout_s)
    try:
        yield generator
    finally:
        generator.close()
        server.close()
        for end in ended:
            await end.wait()


async def answer_at_once(number: int) -> bytes:
    return reply()


async def test_an_open_loop_counts_a_stall_for_all_who_come_meanwhile() -> None:
    everyone_is_here = asyncio.Event()

    async def answer(number: int) -> bytes:
        if number == 20:
            everyone_is_here.set()
        await everyone_is_here.wait()
        return reply()

    async with open_generator(answer) as generator:
        samples = await generator.send_open(rate=200, duration_s=0.1)
    latencies = sorted(samples.answered)
    assert len(latencies) == samples.sent == 20
    assert latencies[-1] >= 0.09
    assert latencies[-1] - latencies[0] >= 0.08
    assert latencies[10] >= 0.04


async def test_a_closed_loop_keeps_as_many_requests_under_way_as_it_has_connections() -> None:
    waiting, most = 0, 0

    async def answer(number: int) -> bytes:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0)
        waiting -= 1
        return reply()

    async with open_generator(answer) as generator:
        samples = await generator.send_closed(connections=4, duration_s=0.1)
    assert 1 < most <= 4
    assert len(samples.answered) == samples.sent > 4


async def test_a_connection_that_is_refused_waits_as_long_as_the_reply_says() -> None:
    async def answer(number: int) -> bytes:
        return reply(429, "Retry-After: 60\r\nContent-Length: 2\r\n") if number > 1 else reply()

    async with open_generator(answer) as generator:
        samples = await generator.send_closed(connections=1, duration_s=0.1)
    assert (len(samples.answered), len(samples.refused), samples.failed) == (1, 1, {})
    assert 0.1 <= samples.elapsed_s < 10


async def test_refusals_and_failures_are_counted_apart_from_answers() -> None:
    replies = {1: reply(429), 2: reply(503), 3: b"", 4: b"no HTTP\r\n\r\n"}

    async def answer(number: int) -> bytes:
        return replies.get(number, reply())

    async with open_generator(answer) as generator:
        samples = await generator.send_open(rate=20, duration_s=0.3)
    assert (len(samples.answered), len(samples.refused), samples.sent) == (2, 1, 6)
    assert samples.failed["503"] == samples.failed["the server closed the connection"] == 1
    assert sum("not a reply of HTTP/1.1" in cause for cause in samples.failed) == 1


async def test_a_server_that_does_not_answer_is_waited_for_until_the_timeout() -> None:
    async def answer(number: int) -> None:
        return None

    async with open_generator(answer, timeout_s=0.1) as generator:
        samples = await generator.send_open(rate=100, duration_s=0.02)
    assert samples.failed == {"no reply in 0.1 s": 2}


async def test_a_server_that_is_gone_is_not_asked_without_a_pause() -> None:
    async with open_generator(answer_at_once) as generator:
        url = httpx.URL("http://127.0.0.1:9")
        nobody = LoadGenerator(parse_address(url), repeat(b""), 1)
        samples = await nobody.send_closed(connections=1, duration_s=0.15)
        assert 1 <= samples.failed.total() <= 2
        assert not samples.answered
        assert (await generator.send_open(rate=100, duration_s=0.01)).answered


async def test_replies_in_parts_and_closed_connections_are_read_to_their_end() -> None:
    chunked = reply(headers="Transfer-Encoding: chunked\r\n", body="1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
    closing = reply(headers="Connection: close\r\nContent-Length: 2\r\n")

    async def answer(number: int) -> bytes:
        return chunked if number % 2 else closing

    async with open_generator(answer) as generator:
        samples = await generator.send_open(rate=100, duration_s=0.06)
    assert (len(samples.answered), samples.failed) == (6, {})


def test_new_texts_are_new_in_every_measurement() -> None:
    first, second = (set(islice(make_new_texts(["a", "b"]), 5)) for _ in range(2))
    assert len(first | second) == 10
    assert all(text.startswith(("a ", "b ")) for text in first)


def test_percentiles_are_by_nearest_rank() -> None:
    latencies = [number / 1000 for number in range(1000, 0, -1)]
    found = LatencyPercentiles.from_seconds(latencies)
    assert found == LatencyPercentiles(p50=500, p90=900, p99=990, p999=999, max=1000)
    assert LatencyPercentiles.from_seconds([0.25]) == LatencyPercentiles(p50=250, p90=250, p99=250, p999=250, max=250)


def test_a_phase_without_an_answer_has_no_percentiles() -> None:
    samples = LoadSamples(refused=[0.001], elapsed_s=2)
    phase = LoadPhase.from_samples(samples, rate=0.5)
    assert (phase.loop, phase.answered_ms, phase.answered_per_s, phase.refused) == ("open", None, 0, 1)
