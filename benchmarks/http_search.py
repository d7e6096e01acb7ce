"""Search for tools over the bus, over HTTP and over MCP with an API key; a call of a builtin; the check of a key.

Claims: HTTP adds at most 2.5 ms to the median of the bus, and the MCP endpoint at most 3 ms to that of HTTP; a call of
a builtin tool over the bus takes at most 2 ms, and a check 0.2 ms. The gateway, the other services and the client run
in one process, as in standalone; the client is a few lines on a socket, so that its own work does not count. Searches
of known texts alternate. The tools are those of an MCP server: a search over MCP also returns their parameters.
The process has one event loop: on a quiet machine its CPU time is the time of the clock but for waits, and on a busy
one only the CPU time tells something.

The check is measured in CPU time: the layer of the gateway that finds the caller, around an application that does
nothing, minus that application alone.

    python benchmarks/http_search.py [--count 1000] [--rounds 500] [--checks 20000]
"""

import asyncio
import json
import statistics
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import httpx
import uvloop
from generator import SEED, Record, read_queries, read_tools
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from pydantic import SecretStr
from starlette.types import Message, Receive, Scope, Send
from tool_import import import_all, number_tools

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool
from skillbus.contracts.gateway.api_keys import ApiKeyRecord, Role
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.gateway.adapters.guard import Guard
from skillbus.gateway.adapters.problem_response import make_problem_response
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
SOURCE = "mcp:bench"
TEXTS = 20
LIMIT = 5
KEYS = 1_000


class HttpAnswer(NamedTuple):
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends POST requests on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    async def post(self, path: str, body: object, headers: Mapping[str, str] = MappingProxyType({})) -> HttpAnswer:
        data = json.dumps(body).encode()
        lines = {**self._headers, **headers, "Content-Length": len(data)}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._writer.write(f"{head}\r\n".encode() + data)
        status, *given = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().strip().split("\r\n")
        assert status.split()[1] in {"200", "202"}, status
        answered = dict(line.split(": ", 1) for line in given)
        return HttpAnswer(answered, await self._read_body(answered))

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await self._reader.readline(), 16):  # chunked
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return body

    async def search(self, query: str) -> list[Record]:
        given = {"query": query, "limit": LIMIT}
        results: list[Record] = json.loads((await self.post("/api/tools/search", given)).body)["results"]
        return results


class McpClient:
    """Calls `search_tools` in one session of the MCP endpoint."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._headers = {"Accept": "application/json, text/event-stream"}

    async def open_session(self) -> None:
        client = {"name": "benchmark", "version": "1"}
        given = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        greeted = await self._http.post("/mcp", make_message("initialize", 1, given), self._headers)
        self._headers |= {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
        await self._http.post("/mcp", make_message("notifications/initialized", None, {}), self._headers)

    async def search(self, query: str) -> list[Record]:
        given = {"name": "search_tools", "arguments": {"query": query, "limit": LIMIT}}
        body = (await self._http.post("/mcp", make_message("tools/call", 2, given), self._headers)).body
        tools: list[Record] = json.loads(body)["result"]["structuredContent"]["tools"]
        return tools


def make_message(method: str, number: int | None, params: Mapping[str, object]) -> Mapping[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})


async def measure(tools: list[Record], queries: list[str], rounds: int, checks: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        settings = GatewaySettings(port=0, owner_key=SecretStr(OWNER_KEY), requests_per_minute=10**9)
        gateway = await stack.enter_async_context(open_gateway(bus, settings))
        await stack.enter_async_context(open_agent(bus, AgentSettings(data=data)))
        await import_all(bus, tools, SOURCE)
        settle_memory()
        owner = {"Authorization": f"Bearer {OWNER_KEY}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=owner, trust_env=False) as http:
            made = (await http.post("/api/keys", json={"label": "benchmark", "projects": ["default"]})).json()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        try:
            searches = await compare(bus, HttpClient(reader, writer, made["key"]), queries, rounds)
        finally:
            writer.close()
        return searches | {"builtin_call_ms": await time_calls(bus, rounds)} | await measure_checks(bus, checks)


async def compare(bus: Bus, http: HttpClient, queries: list[str], rounds: int) -> dict[str, object]:
    mcp = McpClient(http)
    await mcp.open_session()

    async def search_bus(query: str) -> int:
        return len((await bus.caller.call(SEARCH_TOOLS, SearchTools(query=query, limit=LIMIT))).results)

    async def search_http(query: str) -> int:
        return len(await http.search(query))

    async def search_mcp(query: str) -> int:
        return len(await mcp.search(query))

    ways = {"bus": search_bus, "http": search_http, "mcp": search_mcp}
    spent: dict[str, list[float]] = {f"{way}_{unit}": [] for way in ways for unit in ("ms", "cpu_ms")}
    hits: list[float] = []
    for turn in range(-2 * len(queries), rounds):
        query, counts = queries[turn % len(queries)], set[int]()
        for way, search in ways.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            counts.add(await search(query))
            took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
            if turn >= 0:
                spent[f"{way}_ms"].append(took_s * 1000)
                spent[f"{way}_cpu_ms"].append(cpu_s * 1000)
        (count,) = counts
        hits.append(count)
    for one, other in (("http", "bus"), ("mcp", "http")):
        pairs = zip(spent[f"{one}_cpu_ms"], spent[f"{other}_cpu_ms"], strict=True)
        spent[f"{one}_added_cpu_ms"] = [mine - theirs for mine, theirs in pairs]
    figures: dict[str, object] = {name: summarize(values) for name, values in spent.items()}
    p50 = {name: statistics.median(values) for name, values in spent.items()}
    for one, other in (("http", "bus"), ("mcp", "http")):
        figures[f"{one}_p50_above_{other}_ms"] = round(p50[f"{one}_ms"] - p50[f"{other}_ms"], 2)
        figures[f"{one}_to_{other}"] = round(p50[f"{one}_ms"] / p50[f"{other}_ms"], 2)
        figures[f"{one}_to_{other}_cpu"] = round(p50[f"{one}_cpu_ms"] / p50[f"{other}_cpu_ms"], 2)
    return {"hits": summarize(hits, 1)} | figures


async def time_calls(bus: Bus, rounds: int) -> dict[str, float]:
    request = CallTool(id="builtin:calculate", arguments={"expression": "6 * 7"})
    took_ms: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        called = await bus.caller.call(CALL_TOOL, request)
        took_ms.append((time.perf_counter() - start) * 1000)
        assert not called.is_error
    return summarize(took_ms)


async def measure_checks(bus: Bus, checks: int) -> dict[str, object]:
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
    limiter, recorder = RateLimiter(10**9, 16, 60), ActRecorder(AuditStream(bus), "gateway")
    guard = Guard(answer_nothing, authenticator, limiter, recorder, lambda _, problem: make_problem_response(problem))
    return {f"check_of_{name}_us": await time_check(guard, given, checks) for name, given in headers.items()}


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


async def time_check(guard: Guard, headers: dict[str, str], checks: int) -> float:
    async def receive() -> Message:
        raise AssertionError("nothing reads the body")

    async def send(message: Message) -> None:
        raise AssertionError(f"the guard refused: {message}")

    given = [(b"host", b"127.0.0.1"), *((name.encode(), value.encode()) for name, value in headers.items())]

    async def spend(app: Guard | None) -> float:
        start = time.process_time()
        for _ in range(checks):
            scope: Scope = {"type": "http", "method": "POST", "path": "/api/tools/search", "headers": given}
            await (answer_nothing if app is None else app)(scope, receive, send)
        return time.process_time() - start

    rounds = [(await spend(guard)) - (await spend(None)) for _ in range(5)]
    return round(sorted(rounds)[2] / checks * 1e6, 1)


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--checks", type=int, default=20_000, help="checks of keys in each round of five")
    given = parser.read_arguments()
    tools = number_tools(read_tools(None, given.count), given.count, f"{SOURCE}/tool")
    figures = uvloop.run(measure(tools, read_queries(None, TEXTS), given.rounds, given.checks))
    bounds = {
        "http_p50_above_bus_ms": "<= 2.5",
        "http_added_cpu_ms.p50": "<= 2.5",
        "mcp_p50_above_http_ms": "<= 3",
        "mcp_added_cpu_ms.p50": "<= 3",
        "builtin_call_ms.p50": "<= 2",
        "check_of_key_us": "<= 200",
        "check_of_session_us": "<= 200",
    }
    setting = {"tools": given.count, "rounds": given.rounds, "keys": KEYS, "seed": SEED}
    save_result("http_search", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
