"""CPU time of a responder per request on the request lane, against FastStream's own RPC in the same run.

Claim: at most 80 µs, and at least three times less than FastStream. Each responder runs in a process of its own, so
that its CPU time is its own; caller and server are the same for both. Rounds alternate. Figures are medians.

`caller_us` is the CPU time of a caller per request, and `hedged_caller_us` that for a read, which is sent once more
when its answer is late: the difference is what the timer and the bookkeeping cost.

    python benchmarks/request_lane.py [--requests 10000] [--rounds 5]
"""

import asyncio
import multiprocessing as mp
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from faststream.nats import NatsBroker
from measuring import BenchmarkParser, save_result
from nats.aio.client import Client
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.caller import Caller
from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.message import Message
from skillbus.standalone.nats_server import NatsAddress, open_nats_server

CONCURRENCY = 16


class Echo(Message):
    text: str


ECHO = Endpoint("echo", "echo_text", Echo, Echo, "Echo.")
READ = replace(ECHO, name="read_text", is_read=True)
BODY = b'{"text": "a request of some thirty bytes"}'
FASTSTREAM_SUBJECT = "bench.faststream.echo"


async def serve_here(address: NatsAddress, pipe: Connection) -> None:
    settings = BusSettings(url=address.url, token=SecretStr(address.token))

    async def echo(request: Echo) -> Echo:
        return request

    async with open_bus(settings, "responder", CollectorRegistry()) as bus:
        responder = Responder(bus.client, "echo", "1.0.0", bus.metrics)
        await responder.start(route(ECHO, echo), route(READ, echo))
        await report_cpu(pipe)
        await responder.drain()


async def serve_faststream(address: NatsAddress, pipe: Connection) -> None:
    broker = NatsBroker(address.url, token=address.token, logger=None)

    @broker.subscriber(FASTSTREAM_SUBJECT, queue="echo", max_workers=256)
    async def echo(request: Echo) -> Echo:
        return request

    async with broker:
        await broker.start()
        await report_cpu(pipe)


async def report_cpu(pipe: Connection) -> None:
    """Answer each word from the parent with the CPU seconds so far, until it says so."""
    loop = asyncio.get_running_loop()
    pipe.send("ready")
    while await loop.run_in_executor(None, pipe.recv) != "end":
        pipe.send(time.process_time())


def process(main: Callable[..., object], address: NatsAddress, pipe: Connection) -> None:
    uvloop.run(main(address, pipe))  # type: ignore[arg-type]


def started(main: Callable[..., object], address: NatsAddress) -> Connection:
    ours, theirs = mp.Pipe()
    mp.get_context("spawn").Process(target=process, args=(main, address, theirs), daemon=True).start()
    assert ours.recv() == "ready"
    return ours


async def ask(client: Client, subject: str, count: int) -> list[float]:
    """Latencies in milliseconds of `count` requests from `CONCURRENCY` callers."""
    took: list[float] = []

    async def one_caller() -> None:
        for _ in range(count // CONCURRENCY):
            start = time.perf_counter()
            reply = await client.request(subject, BODY, timeout=5)
            took.append((time.perf_counter() - start) * 1000)
            assert Echo.model_validate_json(reply.data) == Echo.model_validate_json(BODY)

    await asyncio.gather(*(one_caller() for _ in range(CONCURRENCY)))
    return took


async def measure_caller(caller: Caller, endpoint: Endpoint[Echo, Echo], count: int) -> float:
    """CPU microseconds of this process per request."""
    request = Echo(text="a request of some thirty bytes")

    async def one_caller() -> None:
        for _ in range(count // CONCURRENCY):
            await caller.call(endpoint, request)

    start = time.process_time()
    await asyncio.gather(*(one_caller() for _ in range(CONCURRENCY)))
    return (time.process_time() - start) / count * 1e6


async def measure(requests: int, rounds: int) -> dict[str, object]:
    figures: dict[str, dict[str, list[float]]] = {
        name: {"cpu_us": [], "p50_ms": []} for name in ("skillbus", "faststream")
    }
    callers: dict[str, list[float]] = {"caller_us": [], "hedged_caller_us": []}
    with tempfile.TemporaryDirectory() as data:
        async with open_nats_server(Path(data)) as server:
            pipes = {
                "skillbus": started(serve_here, server.address),
                "faststream": started(serve_faststream, server.address),
            }
            subjects = {"skillbus": ECHO.subject, "faststream": FASTSTREAM_SUBJECT}
            settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
            async with open_bus(settings, "caller", CollectorRegistry()) as bus:
                for turn in range(rounds + 1):
                    for name, pipe in pipes.items():
                        before = cpu(pipe)
                        took = await ask(bus.client, subjects[name], requests)
                        if turn:  # the first round warms up
                            figures[name]["cpu_us"].append((cpu(pipe) - before) / len(took) * 1e6)
                            figures[name]["p50_ms"].append(statistics.median(took))
                    for name, endpoint in (("caller_us", ECHO), ("hedged_caller_us", READ)):
                        callers[name].append(await measure_caller(bus.caller, endpoint, requests))
            for pipe in pipes.values():
                pipe.send("end")
    medians = {
        name: {key: round(statistics.median(values), 2) for key, values in of.items()} for name, of in figures.items()
    }
    ratio = medians["faststream"]["cpu_us"] / medians["skillbus"]["cpu_us"]
    costs = {name: round(statistics.median(values[1:]), 2) for name, values in callers.items()}
    return {**medians, "faststream_to_skillbus_cpu": round(ratio, 2), **costs}


def cpu(pipe: Connection) -> float:
    pipe.send("cpu")
    seconds: float = pipe.recv()
    return seconds


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.read_arguments()
    figures = uvloop.run(measure(given.requests, given.rounds))
    bounds = {"skillbus.cpu_us": "<= 80", "faststream_to_skillbus_cpu": ">= 3"}
    setting = {"concurrency": CONCURRENCY, "requests": given.requests, "rounds": given.rounds}
    save_result("request_lane", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
