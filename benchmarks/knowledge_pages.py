"""The page of the knowledge base: time of the first page and of its filters, against the same query over REST.

Claims: with 10,000 items the first page takes at most 30 ms and an answer to a filter at most 60 ms (medians); the
first page with everything that it loads is at most 150 kB in at most five requests beyond the document. The gateway,
the learner and the client run in one process, as in standalone; the client is a few lines on a socket. A page
alternates with the list that it shows. On a busy machine only the CPU time tells something.

    python benchmarks/knowledge_pages.py [--count 10000] [--rounds 200] [--data FOLDER with */docs.jsonl]
"""

import asyncio
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import uvloop
from generator import SEED, Record, read_knowledge
from knowledge_import import number_items
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.learner.bulk import MAX_ITEMS, PUT_KNOWLEDGE, PutKnowledge
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import open_gateway
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

OWNER_KEY = "an-owner's-key-of-some-length"
WARM_UP = 3
QUERIES = {
    "first": "",
    "type": "?type=business_rule",
    "words": "?text=order",
    "absent_words": "?text=zqxj",
    "source": "?source=import",
}
"""Queries by the name of their figures. All but the first are answered with the rows alone, as filters are."""


class PageClient:
    """Sends GET requests on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        given = {"Host": "127.0.0.1", "Authorization": f"Bearer {OWNER_KEY}", **headers}
        head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in given.items())
        self._writer.write(f"{head}\r\n".encode())
        status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().strip().split("\r\n")
        assert status.split()[1] == "200", status
        length = dict(line.split(": ", 1) for line in lines)["content-length"]
        return await self._reader.readexactly(int(length))


async def measure(docs: Sequence[Record], count: int, rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
        settings = GatewaySettings(port=0, owner_key=SecretStr(OWNER_KEY), requests_per_minute=10**9)
        gateway = await stack.enter_async_context(open_gateway(bus, settings))
        await put_all(bus, number_items(docs, count, "page"))
        settle_memory()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        try:
            client = PageClient(reader, writer)
            figures = await weigh_first_page(client)
            for name, query in QUERIES.items():
                figures |= await compare(client, name, query, rounds)
            return figures
        finally:
            writer.close()


async def put_all(bus: Bus, items: Sequence[Record]) -> None:
    """Write the items; no index is needed to list them."""
    for at in range(0, len(items), MAX_ITEMS):
        request = PutKnowledge(items=tuple(items[at : at + MAX_ITEMS]), wait_indexed_s=0)
        await bus.caller.call(PUT_KNOWLEDGE, request)


async def weigh_first_page(client: PageClient) -> dict[str, object]:
    document = await client.get("/knowledge", {"Accept": "text/html"})
    loaded = sorted(set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', document.decode())))
    sizes = [len(await client.get(path, {"Accept-Encoding": "gzip"})) for path in loaded]
    return {"first_kb": round((len(document) + sum(sizes)) / 1000, 1), "first_requests": len(loaded)}


async def compare(client: PageClient, name: str, query: str, rounds: int) -> dict[str, object]:
    asked = {"Accept": "text/html"} | ({"HX-Request": "true"} if query else {})
    ways = {"page": (f"/knowledge{query}", asked), "api": (f"/api/knowledge{query}", {"Accept": "application/json"})}
    spent: dict[str, list[float]] = {f"{name}_{way}_{unit}": [] for way in ways for unit in ("ms", "cpu_ms")}
    for turn in range(-WARM_UP, rounds):
        for way, (path, headers) in ways.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            await client.get(path, headers)
            took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
            if turn >= 0:
                spent[f"{name}_{way}_ms"].append(took_s * 1000)
                spent[f"{name}_{way}_cpu_ms"].append(cpu_s * 1000)
    p50 = {figure: statistics.median(values) for figure, values in spent.items()}
    ratio = round(p50[f"{name}_page_cpu_ms"] / p50[f"{name}_api_cpu_ms"], 2)
    return {figure: summarize(values) for figure, values in spent.items()} | {f"{name}_page_to_api_cpu": ratio}


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--data", help="folder with */docs.jsonl, instead of generated items")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.read_arguments()
    figures = uvloop.run(measure(read_knowledge(given.data, given.count), given.count, given.rounds))
    bounds = {"first_page_ms.p50": "<= 30", "first_kb": "<= 150", "first_requests": "<= 5"}
    bounds |= {f"{name}_page_ms.p50": "<= 60" for name, query in QUERIES.items() if query}
    setting = {"items": given.count, "rounds": given.rounds, "seed": SEED}
    save_result("knowledge_pages", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
