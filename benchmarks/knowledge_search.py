"""Search of a knowledge base over the bus, against the time of the model and the vector store alone in process.

Claims: with 10,000 items a new query text takes at most 10 ms, of which at most 4 ms are added to the model and the
store: the way over the bus, the record on SQLite, the ranking, and the event about uses once a second. New texts
alternate with the bare work; a second round rests before each search, after which a processor needs half as long again;
repeated texts come last. Everything runs in one process, as in standalone. Figures are medians.

    python benchmarks/knowledge_search.py [--count 10000] [--rounds 200] [--data FOLDER with */docs.jsonl]
"""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import uvloop
from generator import SEED, Record, generate_questions, read_knowledge
from knowledge_import import import_all, number_items
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import translate_han
from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.adapters.vector_knowledge import VectorKnowledge
from skillbus.retriever.domain.index import EmbeddedQuery
from skillbus.retriever.domain.knowledge.ports import WantedKnowledge
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

CANDIDATES = 20
HITS = 5
REST_S = 0.02
"""Pause before each search of the second round."""
WARM_UP = 20
REPEATED = 20
"""Number of different texts that are searched again."""


@dataclass(frozen=True, slots=True)
class KnowledgeSearchArms:
    """The two sides of the comparison."""

    bus: Bus
    index: VectorKnowledge
    model: UseModel
    lexical: LexicalEncoder

    async def search_over_the_bus(self, query: str) -> None:
        found = await self.bus.caller.call(SEARCH_KNOWLEDGE, make_request(query))
        assert len(found.results) == HITS, len(found.results)
        assert found.degraded is None

    async def work_in_process(self, query: str) -> None:
        """Run the model and the store calls of a search: candidates of both sides, their cosines, their terms."""
        (row,) = self.model.embed([query], TextRole.QUERY)
        sparse = self.lexical.encode_query(query)
        indices, values = sparse.indices.tolist(), sparse.values.tolist()
        embedded = EmbeddedQuery(array("f", row.tobytes()), indices, values, sparse.terms, None, NEUTRAL)
        live = await self.index.find_live_index()
        assert live is not None
        wanted = WantedKnowledge(make_request(query), ("default",), time.time(), CANDIDATES)
        found = await self.index.find_candidates(live, embedded, wanted)
        await self.index.load_terms(live, [one.id for one in found[:5]])


def make_request(query: str) -> SearchKnowledge:
    return SearchKnowledge(query=query, top_k=HITS, threshold=0.0)


async def measure(items: Sequence[Record], queries: list[str], rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await import_all(bus, items)
        model = UseModel(threads=1)
        model.load()
        lexical = LexicalEncoder(translate=translate_han)
        settle_memory()
        return await compare(KnowledgeSearchArms(bus, VectorKnowledge(store), model, lexical), queries, rounds)


async def compare(arms: KnowledgeSearchArms, queries: list[str], rounds: int) -> dict[str, object]:
    for query in queries[:WARM_UP]:
        await arms.search_over_the_bus(query)
        await arms.work_in_process(query)
    figures = await compare_in_turns(arms, queries[WARM_UP : WARM_UP + rounds], 0.0)
    rested = await compare_in_turns(arms, queries[WARM_UP + rounds :], REST_S)
    repeated = queries[-REPEATED:]
    known = [await time_ms(arms.search_over_the_bus(repeated[turn % len(repeated)])) for turn in range(rounds)]
    return {**figures, "known_query_ms": summarize(known), "rested": rested}


async def compare_in_turns(arms: KnowledgeSearchArms, queries: Sequence[str], rest_s: float) -> dict[str, object]:
    new, bare, added = [], [], []
    for query in queries:
        alone = await time_ms(arms.work_in_process(query), rest_s)
        whole = await time_ms(arms.search_over_the_bus(query), rest_s)
        new.append(whole)
        bare.append(alone)
        added.append(whole - alone)
    return {
        "new_query_ms": summarize(new),
        "in_process_ms": summarize(bare),
        "added_ms": summarize(added),
        "new_query_to_in_process": round(summarize(new)["p50"] / summarize(bare)["p50"], 2),
    }


async def time_ms(work: Awaitable[None], rest_s: float = 0.0) -> float:
    if rest_s:
        await asyncio.sleep(rest_s)
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--data", help="folder with */docs.jsonl, instead of generated items")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.read_arguments()
    items = number_items(read_knowledge(given.data, given.count), given.count, "item")
    figures = uvloop.run(measure(items, generate_questions(WARM_UP + 2 * given.rounds), given.rounds))
    bounds = {"new_query_ms.p50": "<= 10", "added_ms.p50": "<= 4"}
    setting = {"items": given.count, "rounds": given.rounds, "seed": SEED}
    save_result("knowledge_search", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
