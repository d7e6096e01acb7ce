"""Search for tools over the bus, against the time of the model and the vector store alone in process.

Claims: with 10,000 tools a new query text takes at most 8 ms, of which at most 3 ms are added to the model and the
store; a text that was searched before takes at most 3 ms. New texts alternate with the bare work in process; repeated
texts come afterwards. Everything runs in one process, as in standalone, where the retriever asks the embedder without
the server (ADR 0020). Figures are medians.

    python benchmarks/tool_search.py [--count 10000] [--rounds 200] [--tools tools.jsonl --queries queries.jsonl]
"""

import time
from array import array
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import uvloop
from generator import SEED, Record, read_queries, read_tools
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from tool_import import import_all, number_tools

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import translate_han
from skillbus.relevance.score import NEUTRAL
from skillbus.relevance.sentences import split_sentences
from skillbus.retriever.adapters.vector_tools import VectorTools
from skillbus.retriever.domain.index import EmbeddedQuery
from skillbus.retriever.domain.tools.search import WantedTools
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store
from skillbus.vectors.mean_direction import compute_mean_direction

CANDIDATES = 20
PAYLOADS = 16
"""Tools whose payload a search reads: the hits and some near-copies of them."""
WARM_UP = 20
REPEATED = 20
"""Number of different texts that are searched again."""


@dataclass(frozen=True, slots=True)
class ToolSearchArms:
    """The two sides of the comparison."""

    bus: Bus
    tools: VectorTools
    model: UseModel
    lexical: LexicalEncoder

    async def search_over_the_bus(self, query: str) -> None:
        found = await self.bus.caller.call(SEARCH_TOOLS, SearchTools(query=query, limit=10, threshold=0.0))
        assert found.results
        assert found.degraded is None

    async def work_in_process(self, query: str) -> None:
        """Run the model and the store calls of a search: candidates of both sides, their cosines, payloads."""
        parts = split_sentences(query)
        rows = self.model.embed(list(parts or (query,)), TextRole.QUERY)
        sparse = self.lexical.encode_query(query)
        embedded = EmbeddedQuery(
            array("f", compute_mean_direction(rows).tobytes()),
            sparse.indices.tolist(),
            sparse.values.tolist(),
            sparse.terms,
            None,
            NEUTRAL,
            tuple(array("f", row.tobytes()) for row in rows) if parts else (),
        )
        live = await self.tools.find_live_index()
        assert live is not None
        found = await self.tools.find_candidates(live, embedded, WantedTools("default", (), (), (), CANDIDATES))
        await self.tools.load_tools(live, [candidate.id for candidate in found[:PAYLOADS]], functions=False)


async def measure(tools: Sequence[Record], queries: list[str], rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await import_all(bus, tools)
        model = UseModel(threads=1)
        model.load()
        lexical = LexicalEncoder(translate=translate_han)
        settle_memory()  # as every service does once it is ready
        return await compare(ToolSearchArms(bus, VectorTools(store), model, lexical), queries, rounds)


async def compare(arms: ToolSearchArms, queries: list[str], rounds: int) -> dict[str, object]:
    new, bare, added = [], [], []
    for query in queries[:WARM_UP]:
        await arms.search_over_the_bus(query)
        await arms.work_in_process(query)
    for query in queries[WARM_UP:]:
        alone = await time_ms(arms.work_in_process(query))
        whole = await time_ms(arms.search_over_the_bus(query))
        new.append(whole)
        bare.append(alone)
        added.append(whole - alone)
    repeated = queries[-REPEATED:]
    known = [await time_ms(arms.search_over_the_bus(repeated[turn % len(repeated)])) for turn in range(rounds)]
    return {
        "new_query_ms": summarize(new),
        "in_process_ms": summarize(bare),
        "added_ms": summarize(added),
        "known_query_ms": summarize(known),
        "new_query_to_in_process": round(summarize(new)["p50"] / summarize(bare)["p50"], 2),
    }


async def time_ms(work: Awaitable[None]) -> float:
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--tools", help="descriptions of tools as NDJSON, instead of generated ones")
    parser.add_argument("--queries", help="queries as NDJSON, instead of generated ones")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.read_arguments()
    tools = number_tools(read_tools(given.tools, given.count), given.count, "tool")
    queries = read_queries(given.queries, WARM_UP + given.rounds)
    figures = uvloop.run(measure(tools, queries, given.rounds))
    bounds = {"added_ms.p50": "<= 3", "new_query_ms.p50": "<= 8", "known_query_ms.p50": "<= 3"}
    setting = {"tools": given.count, "rounds": given.rounds, "seed": SEED}
    save_result("tool_search", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
