"""Search for tools over HTTP with an API key, against the same search over the bus; and what a check of a key costs.

Claims: HTTP adds at most 2.5 ms to the median, and a check takes at most 0.2 ms. The gateway, the other services and
the client run in one process, as in standalone; the client is a few lines on a socket, so that its own work does not
count. Searches of known texts over the bus and over HTTP alternate. The process has one event loop: on a quiet machine
its CPU time is the time of the clock but for waits, and on a busy one only the CPU time tells something.

The check is measured in CPU time: the layer of the gateway that finds the caller, around an application that does
nothing, minus that application alone.

    python benchmarks/http_search.py [--count 1000] [--rounds 500]
"""

import asyncio
import json
import statistics
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import httpx
import uvloop
from generator import SEED, Record, read_queries, read_tools
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from pydantic import SecretStr
from starlette.types import Message, Receive, Scope, Send
from tool_import import import_all, number_tools

from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.gateway.api_keys import ApiKeyRecord, Role
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.adapters.guard import Guard
from skillbus.gateway.domain.access.api_key import KeyText, make_key
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.principal import OWNER, Principal
from skillbus.gateway.domain.access.rate_limit import RateLimiter
from skillbus.gateway.domain.access.session import SessionRing
from skillbus.gateway.domain.access.session_registry import SessionRegistry
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

OWNER_KEY = "an-owner's-key-of-some-length"
TEXTS = 20
CHECKS = 20_000
KEYS = 1_000


class HttpClient:
    """Sends one kind of request on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self._reader = reader
        self._writer = writer
        self._key = key

    async def search(self, body: bytes) -> bytes:
        head = (
            f"POST /api/tools/search HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        assert status.split()[1] == b"200", status
        (length,) = [int(header.partition(b":")[2]) for header in headers if header.startswith(b"content-length:")]
        return await self._reader.readexactly(length)


async def measure(tools: list[Record], queries: list[str], rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        settings = GatewaySettings(port=0, owner_key=SecretStr(OWNER_KEY), requests_per_minute=10**9)
        gateway = await stack.enter_async_context(open_gateway(bus, settings))
        await import_all(bus, tools)
        settle_memory()
        owner = {"Authorization": f"Bearer {OWNER_KEY}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=owner, trust_env=False) as http:
            made = (await http.post("/api/keys", json={"label": "benchmark", "projects": ["default"]})).json()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        try:
            searches = await compare(bus, HttpClient(reader, writer, made["key"]), queries, rounds)
        finally:
            writer.close()
        return searches | await measure_checks(bus)


async def compare(bus: Bus, client: HttpClient, queries: list[str], rounds: int) -> dict[str, object]:
    names = ("bus_ms", "http_ms", "bus_cpu_ms", "http_cpu_ms", "added_cpu_ms")
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-2 * len(queries), rounds):
        query = queries[turn % len(queries)]
        body = json.dumps({"query": query, "limit": 10, "threshold": 0.0}).encode()
        start, cpu_start = time.perf_counter(), time.process_time()
        found = await bus.caller.call(SEARCH_TOOLS, SearchTools(query=query, limit=10, threshold=0.0))
        between, cpu_between = time.perf_counter(), time.process_time()
        reply = await client.search(body)
        end, cpu_end = time.perf_counter(), time.process_time()
        assert found.results
        assert len(json.loads(reply)["results"]) == len(found.results)
        if turn >= 0:
            bus_cpu_s, http_cpu_s = cpu_between - cpu_start, cpu_end - cpu_between
            spent = (between - start, end - between, bus_cpu_s, http_cpu_s, http_cpu_s - bus_cpu_s)
            for name, seconds in zip(names, spent, strict=True):
                times[name].append(seconds * 1000)
    figures: dict[str, object] = {name: summarize(values) for name, values in times.items()}
    p50 = {name: statistics.median(values) for name, values in times.items()}
    figures["p50_difference_ms"] = round(p50["http_ms"] - p50["bus_ms"], 2)
    figures["http_to_bus"] = round(p50["http_ms"] / p50["bus_ms"], 2)
    figures["http_to_bus_cpu"] = round(p50["http_cpu_ms"] / p50["bus_cpu_ms"], 2)
    return figures


async def measure_checks(bus: Bus) -> dict[str, object]:
    """Return the CPU time of a check of a key, of one that other keys made, and of a session."""
    keys, sessions = KeyRing(), SessionRing()
    authenticator = Authenticator(b"x" * 32, keys, sessions)
    keys.replace_records((), frozenset())
    sessions.replace_records((), frozenset())
    made = [add_key(keys, OWNER.name) for _ in range(KEYS)]
    child = made[0]
    for _ in range(4):
        child = add_key(keys, child.id)
    caller = Principal(made[0].id, Role.READER, frozenset({"default"}))
    text, record = await SessionRegistry(DroppingStore(), authenticator).open_session(caller)
    sessions.put_record(record)
    cookie = f"{authenticator.session_cookie.name}={text.reveal()}"
    headers = {
        "key": {"authorization": f"Bearer {made[1].reveal()}"},
        "key_of_four_makers": {"authorization": f"Bearer {child.reveal()}"},
        "session": {"cookie": cookie, "x-csrf-token": text.make_csrf_token()},
    }
    guard = Guard(answer_nothing, authenticator, RateLimiter(10**9, 16), ActRecorder(AuditStream(bus), "gateway"))
    return {f"check_of_{name}_us": await time_check(guard, given) for name, given in headers.items()}


def add_key(keys: KeyRing, created_by: str) -> KeyText:
    text = make_key()
    keys.put_record(
        ApiKeyRecord(
            id=text.id,
            label="benchmark",
            role=Role.READER,
            projects=("default",),
            created_at=datetime.now(UTC),
            created_by=created_by,
            secret_sha256=text.hash_secret(),
        )
    )
    return text


class DroppingStore:
    """Implements `SessionStore` and stores nothing."""

    async def add_session(self, record: object) -> None: ...

    async def end_session(self, record: object, revoked_at: datetime) -> None: ...


async def answer_nothing(scope: Scope, receive: Receive, send: Send) -> None: ...


async def time_check(guard: Guard, headers: dict[str, str]) -> float:
    async def receive() -> Message:
        raise AssertionError("nothing reads the body")

    async def send(message: Message) -> None:
        raise AssertionError(f"the guard refused: {message}")

    given = [(b"host", b"127.0.0.1"), *((name.encode(), value.encode()) for name, value in headers.items())]

    async def spend(app: Guard | None) -> float:
        start = time.process_time()
        for _ in range(CHECKS):
            scope: Scope = {"type": "http", "method": "POST", "path": "/api/tools/search", "headers": given}
            await (answer_nothing if app is None else app)(scope, receive, send)
        return time.process_time() - start

    rounds = [(await spend(guard)) - (await spend(None)) for _ in range(5)]
    return round(sorted(rounds)[2] / CHECKS * 1e6, 1)


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=500)
    given = parser.read_arguments()
    tools = number_tools(read_tools(None, given.count), given.count, "tool")
    figures = uvloop.run(measure(tools, read_queries(None, TEXTS), given.rounds))
    bounds = {
        "p50_difference_ms": "<= 2.5",
        "added_cpu_ms.p50": "<= 2.5",
        "check_of_key_us": "<= 200",
        "check_of_session_us": "<= 200",
    }
    setting = {"tools": given.count, "rounds": given.rounds, "keys": KEYS, "seed": SEED}
    save_result("http_search", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
