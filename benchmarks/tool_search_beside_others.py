"""Hybrid search with a filter over the bus, against LanceDB in process and Qdrant's own client, at several sizes.

All sides hold the same vectors and texts, and answer the same request with ten tools of one type: name, description
and tags. skillbus is asked over NATS and embeds, ranks and explains; the vector of the request is cached. The others
get the vectors from the caller. The arms alternate. The answers of `skillbus` come from memory, as nothing is written
in between; `skillbus_anew` asks for one tool more in each round, which is answered anew.

At each size LanceDB runs in the fastest of its configurations (no vector index, IVF_FLAT, IVF_PQ; words split at spaces
or by ICU; synchronous or asynchronous interface) whose vector index finds nine of the ten nearest tools; with bitmap
indexes for both filters, and compacted. `lancedb_rrf` is its hybrid search with its own reranker, `lancedb_plain` its
two sides run concurrently and not joined.

With `SKILLBUS_QDRANT_URL`, an empty Qdrant server, skillbus runs on that one too (`skillbus_on_server` and
`skillbus_on_server_anew`), and Qdrant's own client asks the same collection for both sides, joined by the server, by
gRPC (`qdrant_grpc`) and by REST (`qdrant_rest`).

Claim: skillbus is faster than LanceDB at every size, by the median and the 95th percentile.

Points are made as the indexer makes them and written to the store directly, without a catalogue.

    uv run --group bench python benchmarks/tool_search_beside_others.py [--sizes 1000 10000 50000] [--rounds 300]
"""

import argparse
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import uvloop
from generator import SEED, read_queries
from lancedb_table import RECALL, open_lance_table, try_lance_forms
from measuring import BenchmarkParser, open_bench_bus, read_resident_bytes, save_result, summarize, time_call
from numpy.typing import NDArray
from qdrant_search import borrow_empty_server, open_qdrant_search
from tool_search_corpus import LIMIT, TYPE, CatalogueTool, EmbeddedQuery, make_catalogue

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole
from skillbus.contracts.message import MSGPACK
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.announced_writes import AnnouncingVectorStore
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.retriever.adapters.watched_store import watch_writes
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import DENSE, CollectionSpec, VectorSearch, VectorStore, open_vector_store
from skillbus.vectors.datasets import TOOLS
from skillbus.vectors.models import PointStruct
from skillbus.vectors.opening import open_qdrant_server

CHUNK: Final = 256
"""Tools per request for vectors."""
SEEN: Final = 64
"""Number of different requests; each is sent once before it is timed."""

Arm = Callable[[int], Awaitable[int]]
"""Function that answers the request with a number, and returns how many tools it found."""
OpenStore = Callable[[Bus, Path], AbstractAsyncContextManager[tuple[VectorStore, VectorSearch]]]
"""Function that opens the store of a system on a bus, given a folder: as it is written, and as it is searched."""


@dataclass(frozen=True, slots=True)
class SearchSystem:
    """skillbus: embedder and retriever on a bus, and a collection that grows."""

    bus: Bus
    store: VectorStore
    fingerprint: str

    @property
    def collection(self) -> str:
        return TOOLS.name_collection(self.fingerprint)

    async def build_points(self, tools: Sequence[CatalogueTool]) -> list[PointStruct]:
        """Make points of tools as the indexer does."""
        entries, builder = [tool.entry for tool in tools], ToolPoints(self.bus.caller)
        return list((await builder.build_points(self.fingerprint, entries, dense_required=True)).points)

    async def embed_queries(self, texts: Sequence[str]) -> list[EmbeddedQuery]:
        request = EmbedTexts(texts=tuple(texts), role=TextRole.QUERY, model=self.fingerprint, sparse=True)
        reply = await self.bus.caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        assert reply.dense is not None
        assert reply.sparse is not None
        return [
            EmbeddedQuery(text, np.array(row, np.float32), terms.indices, terms.values)
            for text, row, terms in zip(texts, reply.dense.to_rows(), reply.sparse, strict=True)
        ]

    async def search(self, text: str, limit: int = LIMIT) -> int:
        request = SearchTools(query=text, limit=limit, tool_types=(TYPE,), threshold=0.0)
        found = await self.bus.caller.call(SEARCH_TOOLS, request)
        assert found.degraded is None
        return len(found.results)


@asynccontextmanager
async def open_system(open_store: OpenStore) -> AsyncGenerator[SearchSystem]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store, searched = await stack.enter_async_context(open_store(bus, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        reply = await bus.caller.call(EMBED_TEXTS, EmbedTexts(texts=("which model is it",), role=TextRole.QUERY))
        assert reply.model is not None
        opened = SearchSystem(bus, store, reply.model.fingerprint)
        await store.ensure_collection(
            opened.collection, CollectionSpec(reply.model.dimensions, ToolPoints(bus.caller).layout.keywords)
        )
        await store.switch_aliases({TOOLS.alias: opened.collection})
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), searched))
        yield opened


@asynccontextmanager
async def open_embedded_store(_: Bus, folder: Path) -> AsyncGenerator[tuple[VectorStore, VectorSearch]]:
    async with open_vector_store(None, folder) as store:
        yield store, store


@asynccontextmanager
async def open_empty_server(bus: Bus, _: Path) -> AsyncGenerator[tuple[VectorStore, VectorSearch]]:
    async with (
        open_qdrant_server() as server,
        borrow_empty_server(server),
        watch_writes(server, bus.client) as watched,
    ):
        yield AnnouncingVectorStore(server, bus.client), watched


async def put_tools(
    embedded: SearchSystem, server: SearchSystem | None, tools: Sequence[CatalogueTool]
) -> tuple[NDArray[np.float32], int]:
    """Index tools in all systems; return their vectors, shape (tools, dim), and the bytes that this took in process."""
    rows: list[object] = []
    points: list[PointStruct] = []
    before = read_resident_bytes()
    for at in range(0, len(tools), CHUNK):
        made = await embedded.build_points(tools[at : at + CHUNK])
        await embedded.store.upsert(embedded.collection, made)
        rows += [point.vector[DENSE] for point in made]
        points += made if server is not None else []
    await embedded.store.flush()
    vectors = np.array(rows, np.float32)
    grown = read_resident_bytes() - before
    if server is not None:
        for at in range(0, len(points), CHUNK):
            await server.store.upsert(server.collection, points[at : at + CHUNK])
        await server.store.flush()
    return vectors, grown


def make_arms(name: str, system: SearchSystem, queries: Sequence[EmbeddedQuery]) -> dict[str, Arm]:
    """Return the arms of a system: the same request again, and one that is answered anew in each round."""
    turns = count(len(queries))

    async def answer_anew(number: int) -> int:
        return await system.search(queries[number].text, LIMIT + next(turns) // len(queries))

    return {name: lambda number: system.search(queries[number].text), f"{name}_anew": answer_anew}


async def compare_at_size(
    embedded: SearchSystem,
    server: SearchSystem | None,
    tools: Sequence[CatalogueTool],
    rows: NDArray[np.float32],
    queries: Sequence[EmbeddedQuery],
    rounds: int,
) -> dict[str, object]:
    tried = await try_lance_forms(tools, rows, queries)
    form = next(trial.form for trial in tried if trial.recall >= RECALL)
    async with AsyncExitStack() as stack:
        lance, memory = await stack.enter_async_context(open_lance_table(tools, rows, form, queries))
        arms: dict[str, Arm] = {
            **make_arms("skillbus", embedded, queries),
            "lancedb_rrf": lance.search_hybrid,
            "lancedb_plain": lance.search_sides,
        }
        if server is not None:
            arms |= make_arms("skillbus_on_server", server, queries)
            for name, grpc in (("qdrant_grpc", True), ("qdrant_rest", False)):
                opened = open_qdrant_search(server.collection, queries, grpc=grpc)
                search = await stack.enter_async_context(opened)
                await search.wait_until_optimized()
                arms[name] = search.search
        took = await time_arms(arms, len(queries), rounds)
    spreads = {name: summarize(values) for name, values in took.items()}
    return {
        "tools": len(tools),
        "ms": spreads,
        **{
            f"{name}_to_skillbus": {at: round(spreads[name][at] / spreads["skillbus"][at], 2) for at in ("p50", "p95")}
            for name in arms
            if name != "skillbus"
        },
        "lancedb": asdict(form) | memory,
        "lancedb_trials": [trial.describe() for trial in tried],
    }


async def time_arms(arms: dict[str, Arm], queries: int, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of each arm; arms alternate."""
    settle_memory()
    for arm in arms.values():
        for number in range(queries):
            await arm(number)
    took: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(rounds):
        for name, arm in arms.items():
            took[name].append(await time_call(arm, turn % queries))
    return took


async def measure(given: argparse.Namespace) -> list[dict[str, object]]:
    sizes = sorted(given.sizes)
    tools, found = make_catalogue(given.tools, sizes[-1]), []
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(open_system(open_embedded_store))
        has_server = "SKILLBUS_QDRANT_URL" in os.environ
        server = await stack.enter_async_context(open_system(open_empty_server)) if has_server else None
        queries = await embedded.embed_queries(read_queries(given.queries, SEEN))
        rows = np.empty((0, len(queries[0].vector)), np.float32)
        for size in sizes:
            new = tools[len(rows) : size]
            vectors, grown = await put_tools(embedded, server, new)
            rows = np.concatenate([rows, vectors])
            figures = await compare_at_size(embedded, server, tools[:size], rows, queries, given.rounds)
            found.append(figures | {"skillbus_memory_bytes_a_tool": round(grown / len(new))})
    return found


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--tools", help="descriptions of tools as NDJSON, instead of generated ones")
    parser.add_argument("--queries", help="queries as NDJSON, instead of generated ones")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.read_arguments()
    setting = {"lancedb": version("lancedb"), "rounds": given.rounds, "seed": SEED}
    figures = uvloop.run(measure(given))
    bound = "skillbus p50 and p95 below both arms of LanceDB at every size"
    save_result("tool_search_beside_others", {**setting, "sizes": figures, "bound": bound}, given.out)


if __name__ == "__main__":
    main()
