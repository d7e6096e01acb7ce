"""Hybrid search with a filter over the bus, against LanceDB in process, at several sizes of the catalogue.

Both sides hold the same vectors and texts, and answer the same request with ten tools of one type: name, description
and tags. skillbus is asked over NATS and embeds, ranks and explains; the vector of the request is cached. LanceDB gets
the vector from the caller. The arms alternate. At each size LanceDB runs in the fastest of its configurations (no
vector index, IVF_FLAT, IVF_PQ; words split at spaces or by ICU; synchronous or asynchronous interface) whose vector
index finds nine of the ten nearest tools; with bitmap indexes for both filters, and compacted. `lancedb_rrf` is its
hybrid search with its own reranker, `lancedb_plain` its two sides run concurrently and not joined. The answers of
`skillbus` come from memory, as nothing is written in between; `skillbus_anew` asks for one tool more in each round,
which is answered anew.

Claim: skillbus is faster at every size, by the median and the 95th percentile.

Points are made as the indexer makes them and written to the store directly, without a catalogue.

    uv run --group bench python benchmarks/tool_search_beside_lancedb.py [--sizes 1000 10000 50000] [--rounds 300]
"""

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from itertools import count, product
from pathlib import Path
from typing import Final

import lancedb
import numpy as np
import pyarrow as pa
import uvloop
from generator import SEED, read_queries
from lancedb.index import FTS, Bitmap, IvfFlat, IvfPq
from lancedb.query import MatchQuery
from lancedb.rerankers import RRFReranker
from measuring import RESULTS, BenchmarkParser, open_bench_bus, save_result, summarize
from numpy.typing import NDArray
from plots import save_latency_plot
from tool_search_corpus import CatalogueTool, make_catalogue

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.message import MSGPACK
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import DENSE, CollectionSpec, VectorStore, open_vector_store
from skillbus.vectors.datasets import TOOLS

LIMIT: Final = 10
TYPE: Final = ToolType.MCP
CHUNK: Final = 256
"""Tools per request for vectors."""
SEEN: Final = 64
"""Number of different requests; each is sent once before it is timed."""
TRIAL: Final = 40
RECALL: Final = 0.9
"""Share of the nearest tools that a configuration of LanceDB must find: a lower one would be fast for free."""
WHERE: Final = f"project = 'default' AND tool_type = '{TYPE.value}'"
COLUMNS: Final = ["id", "name", "description", "tool_type", "tags"]
PLOT: Final = Path(__file__).resolve().parents[1] / "docs" / "images" / "search-latency.svg"

Arm = Callable[[int], Awaitable[int]]
"""Function that answers the request with a number, and returns how many tools it found."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and its vector for the side that cannot embed."""

    text: str
    vector: NDArray[np.float32]

    @property
    def words(self) -> MatchQuery:
        """Query for any of its words; plain text with quotation marks would be a phrase."""
        return MatchQuery(self.text, "text")


@dataclass(frozen=True, slots=True)
class Form:
    """A configuration of LanceDB."""

    index: str
    """`none`, `ivf_flat`, `ivf_pq`."""
    tokenizer: str
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class Ours:
    """skillbus: embedder and retriever on a bus, and a collection that grows."""

    bus: Bus
    store: VectorStore
    fingerprint: str

    @property
    def collection(self) -> str:
        return TOOLS.name_collection(self.fingerprint)

    async def put(self, tools: Sequence[CatalogueTool]) -> NDArray[np.float32]:
        """Index tools as the indexer does, and return their vectors, shape (tools, dim)."""
        made = ToolPoints(self.bus.caller)
        rows: list[object] = []
        for at in range(0, len(tools), CHUNK):
            entries = [tool.entry for tool in tools[at : at + CHUNK]]
            points = (await made.build_points(self.fingerprint, entries, dense_required=True)).points
            await self.store.upsert(self.collection, points)
            rows += [point.vector[DENSE] for point in points if isinstance(point.vector, dict)]
        await self.store.flush()
        return np.array(rows, np.float32)

    async def asked(self, texts: Sequence[str]) -> list[Asked]:
        request = EmbedTexts(texts=tuple(texts), role=TextRole.QUERY, model=self.fingerprint)
        reply = await self.bus.caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        assert reply.dense is not None
        rows = reply.dense.to_rows()
        return [Asked(text, np.array(row, np.float32)) for text, row in zip(texts, rows, strict=True)]

    async def search(self, text: str, limit: int = LIMIT) -> int:
        request = SearchTools(query=text, limit=limit, tool_types=(TYPE,), threshold=0.0)
        found = await self.bus.caller.call(SEARCH_TOOLS, request)
        assert found.degraded is None
        return len(found.results)


@asynccontextmanager
async def ours() -> AsyncGenerator[Ours]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        reply = await bus.caller.call(EMBED_TEXTS, EmbedTexts(texts=("which model is it",), role=TextRole.QUERY))
        assert reply.model is not None
        opened = Ours(bus, store, reply.model.fingerprint)
        await store.ensure_collection(
            opened.collection, CollectionSpec(reply.model.dimensions, ToolPoints(bus.caller).layout.keywords)
        )
        await store.switch_aliases({TOOLS.alias: opened.collection})
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        yield opened


def as_table(tools: Sequence[CatalogueTool], rows: NDArray[np.float32]) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), rows.shape[1])
    return pa.table(
        {
            "id": [tool.id for tool in tools],
            "project": ["default"] * len(tools),
            "name": [tool.name for tool in tools],
            "description": [tool.description for tool in tools],
            "tool_type": [tool.tool_type for tool in tools],
            "tags": pa.array([list(tool.tags) for tool in tools], pa.list_(pa.string())),
            "text": [tool.lexical_text for tool in tools],
            "vector": vectors,
        }
    )


@dataclass(frozen=True, slots=True)
class Lance:
    """A table of LanceDB with its indexes, and both of its interfaces."""

    blocking: lancedb.table.Table
    table: lancedb.AsyncTable
    form: Form
    asked: Sequence[Asked]

    async def rrf(self, number: int) -> int:
        asked = self.asked[number]
        if not self.form.asynchronous:
            return self._rrf_blocking(asked)
        query = self.table.query().nearest_to(asked.vector).distance_type("cosine").nearest_to_text(asked.words)
        found = await query.where(WHERE).select(COLUMNS).limit(LIMIT).rerank(RRFReranker()).to_list()
        return len(found)

    def _rrf_blocking(self, asked: Asked) -> int:
        query = self.blocking.search(query_type="hybrid").vector(asked.vector).text(asked.words).distance_type("cosine")
        return len(query.where(WHERE).select(COLUMNS).limit(LIMIT).rerank(RRFReranker()).to_list())

    async def plain(self, number: int) -> int:
        """Run both sides concurrently; only the asynchronous interface can."""
        words = self.table.query().nearest_to_text(self.asked[number].words)
        near, said = await asyncio.gather(
            self.nearest(number),
            words.where(WHERE).select([*COLUMNS, "_score"]).limit(LIMIT).to_list(),
        )
        return max(len(near), len(said))

    async def nearest(self, number: int) -> list[str]:
        """Return the ids of the nearest tools by vector alone."""
        query = self.table.query().nearest_to(self.asked[number].vector).distance_type("cosine")
        found = await query.where(WHERE).select([*COLUMNS, "_distance"]).limit(LIMIT).to_list()
        return [str(row["id"]) for row in found]


@asynccontextmanager
async def lance(
    tools: Sequence[CatalogueTool], rows: NDArray[np.float32], form: Form, asked: Sequence[Asked]
) -> AsyncGenerator[tuple[Lance, dict[str, float]]]:
    with tempfile.TemporaryDirectory() as folder:
        before = resident_bytes()
        connection = await lancedb.connect_async(folder)
        table = await connection.create_table("tools", as_table(tools, rows))
        await table.create_index("text", config=FTS(base_tokenizer=form.tokenizer))
        for column in ("project", "tool_type"):
            await table.create_index(column, config=Bitmap())
        if form.index != "none":
            kind = IvfFlat if form.index == "ivf_flat" else IvfPq
            await table.create_index("vector", config=kind(distance_type="cosine"))
        await table.optimize(cleanup_older_than=timedelta(0))
        opened = Lance(lancedb.connect(folder).open_table("tools"), table, form, asked)
        for number in range(len(asked)):
            await opened.rrf(number)
        yield opened, {"memory_bytes_a_tool": round((resident_bytes() - before) / len(tools))}


async def timed(arm: Arm, number: int) -> float:
    start = time.perf_counter()
    found = await arm(number)
    took = (time.perf_counter() - start) * 1000
    assert found > 0
    return took


@dataclass(frozen=True, slots=True)
class Trial:
    """Measured speed and recall of a configuration."""

    form: Form
    p50_ms: float
    recall: float
    """Share of the ten nearest tools that its vector index finds; 1 for an exact search."""

    def document(self) -> dict[str, object]:
        return {**asdict(self.form), "p50_ms": self.p50_ms, "dense_recall_at_10": round(self.recall, 3)}


async def trials(tools: Sequence[CatalogueTool], rows: NDArray[np.float32], asked: Sequence[Asked]) -> list[Trial]:
    """Return all configurations, fastest first."""
    found: list[Trial] = []
    for index, tokenizer in product(("none", "ivf_flat", "ivf_pq"), ("simple", "icu/split")):
        async with lance(tools, rows, Form(index, tokenizer, True), asked[:TRIAL]) as (opened, _):
            both = [opened, replace(opened, form=Form(index, tokenizer, False))]
            took = [[await timed(it.rrf, number) for it in both] for number in range(TRIAL)]
            near = [await opened.nearest(number) for number in range(TRIAL)]
        recall = shared(near, tools, rows, asked)
        columns = zip(*took, strict=True)
        found += [Trial(it.form, summarize(ms)["p50"], recall) for it, ms in zip(both, columns, strict=True)]
    return sorted(found, key=lambda trial: trial.p50_ms)


def shared(
    near: Sequence[Sequence[str]], tools: Sequence[CatalogueTool], rows: NDArray[np.float32], asked: Sequence[Asked]
) -> float:
    """Return the share of the exact answers that these have."""
    of_type = np.array([row for row, tool in enumerate(tools) if tool.tool_type == TYPE.value])
    kept = rows[of_type]
    exact = [of_type[np.argsort(-(kept @ it.vector), kind="stable")[:LIMIT]] for it in asked[: len(near)]]
    pairs = zip(near, exact, strict=True)
    return float(np.mean([len({tools[row].id for row in best} & set(ids)) / LIMIT for ids, best in pairs]))


async def at_size(
    system: Ours, tools: Sequence[CatalogueTool], rows: NDArray[np.float32], asked: Sequence[Asked], rounds: int
) -> dict[str, object]:
    tried = await trials(tools, rows, asked)
    form = next(trial.form for trial in tried if trial.recall >= RECALL)
    async with lance(tools, rows, form, asked) as (it, memory):
        turns = count(len(asked))

        async def answer(number: int) -> int:
            return await system.search(asked[number].text)

        async def answer_anew(number: int) -> int:
            return await system.search(asked[number].text, LIMIT + next(turns) // len(asked))

        arms: dict[str, Arm] = {
            "skillbus": answer,
            "skillbus_anew": answer_anew,
            "lancedb_rrf": it.rrf,
            "lancedb_plain": it.plain,
        }
        took = await compared(arms, len(asked), rounds)
    spreads = {name: summarize(values) for name, values in took.items()}
    return {
        "tools": len(tools),
        "ms": spreads,
        **{
            f"{name}_to_skillbus": {at: round(spreads[name][at] / spreads["skillbus"][at], 2) for at in ("p50", "p95")}
            for name in ("lancedb_rrf", "lancedb_plain", "skillbus_anew")
        },
        "lancedb": asdict(form) | memory,
        "lancedb_trials": [trial.document() for trial in tried],
    }


async def compared(arms: dict[str, Arm], asked: int, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of each arm; arms alternate."""
    settle_memory()
    for arm in arms.values():
        for number in range(asked):
            await arm(number)
    took: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(rounds):
        for name, arm in arms.items():
            took[name].append(await timed(arm, turn % asked))
    return took


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def measure(given: argparse.Namespace) -> list[dict[str, object]]:
    sizes = sorted(given.sizes)
    tools, found = make_catalogue(given.tools, sizes[-1]), []
    async with ours() as system:
        asked = await system.asked(read_queries(given.queries, SEEN))
        rows = np.empty((0, len(asked[0].vector)), np.float32)
        for size in sizes:
            new, before = tools[len(rows) : size], resident_bytes()
            rows = np.concatenate([rows, await system.put(new)])
            grown = round((resident_bytes() - before) / len(new))
            figures = await at_size(system, tools[:size], rows, asked, given.rounds)
            found.append(figures | {"skillbus_memory_bytes_a_tool": grown})
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
    save_result("tool_search_beside_lancedb", {**setting, "sizes": figures, "bound": bound}, given.out)
    if given.out == RESULTS:
        save_latency_plot(PLOT, figures)


if __name__ == "__main__":
    main()
