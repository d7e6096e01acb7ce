"""Import of 10,000 knowledge items over the bus, against embedding them alone; and the time until a new item is found.

Claims: the import, until the index has all items, takes at most 1.3 times as long as embedding the same number of such
items, dense and sparse, over the bus without storing them; in 99 of 100 cases a new item is found at most 300 ms after
the request to write it. Everything runs in one process, as in standalone. The baseline embeds other texts with the same
model under another name, so that no cache helps. The script also reports the same import again, which changes nothing,
and the ratio of processor times.

    python benchmarks/knowledge_import.py [--count 10000] [--created 200] [--data FOLDER with */docs.jsonl]
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from uuid import uuid4

import uvloop
from generator import SEED, Record, read_knowledge
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from model_switch import OneModelFactory

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.registry import CREATE_MODEL, CreateModel
from skillbus.contracts.learner.bulk import MAX_ITEMS, PUT_KNOWLEDGE, PutKnowledge
from skillbus.contracts.learner.items import CREATE_KNOWLEDGE, CreateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.points.knowledge_points import KnowledgePoints
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.knowledge import KnowledgeEntry
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

REQUESTS_AT_ONCE = 2
LOOK_AGAIN_S = 0.02
WARM = 200


def number_items(docs: Sequence[Record], count: int, mark: str) -> list[Record]:
    """Return `count` items with ids of their own; another `mark` gives other texts."""
    return [
        {
            **(doc := docs[number % len(docs)]),
            "id": f"{mark}.{number}",
            "content": f"{doc['content']} {mark}{number // len(docs)}",
        }
        for number in range(count)
    ]


def entry(line: Record) -> KnowledgeEntry:
    now, draft = datetime.now(UTC), KnowledgeDraft.model_validate(line)
    item = KnowledgeItem(
        **draft.model_dump(), id=str(uuid4()), version=1, digest="0" * 64, created_at=now, updated_at=now
    )
    return KnowledgeEntry(item)


async def embed_alone(bus: Bus, docs: Sequence[Record], name: str) -> float:
    model = await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name=name))
    assert model.fingerprint is not None
    points, fingerprint, entries = KnowledgePoints(bus.caller), model.fingerprint, [entry(line) for line in docs]

    async def embed(batch: Sequence[KnowledgeEntry]) -> None:
        await points.build_points(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await write_batches(entries, embed)
    return time.perf_counter() - start


async def import_all(bus: Bus, items: Sequence[Record]) -> tuple[float, Counter[str]]:
    """As the gateway does: some requests under way; until the index has all of it."""
    outcomes: Counter[str] = Counter()
    requests = iter([items[at : at + MAX_ITEMS] for at in range(0, len(items), MAX_ITEMS)])

    async def send() -> None:
        for request in requests:
            reply = await bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=tuple(request)))
            outcomes.update(result.outcome for result in reply.results)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(REQUESTS_AT_ONCE):
            tasks.create_task(send())
    left = len(items)
    while left:
        await asyncio.sleep(LOOK_AGAIN_S)
        left = (await bus.caller.call(GET_KNOWLEDGE_STATS, GetKnowledgeStats(limit=0))).unindexed
    return time.perf_counter() - start, outcomes


async def time_new_items(bus: Bus, count: int) -> dict[str, object]:
    """Return milliseconds from the request to write an item to its reply, and to the first search that finds it."""
    written, found = list[float](), list[float]()
    indexed = 0
    for number in range(count):
        word = f"zq{number}x"
        draft = CreateKnowledge(type="business_rule", title=f"Rule {word}", content=f"{word} needs a key.")
        search = SearchKnowledge(query=f"what does {word} need", threshold=0.0, record_use=False)
        start = time.perf_counter()
        reply = await bus.caller.call(CREATE_KNOWLEDGE, draft)
        written.append((time.perf_counter() - start) * 1e3)
        indexed += reply.indexed
        while True:
            hits = (await bus.caller.call(SEARCH_KNOWLEDGE, search)).results
            if any(hit.item.id == reply.item.id for hit in hits):
                break
        found.append((time.perf_counter() - start) * 1e3)
    ordered = sorted(found)
    return {
        "created": count,
        "indexed_in_the_reply": indexed,
        "written_ms": summarize(written),
        "found_ms": {**summarize(found), "p99": round(ordered[int(len(ordered) * 0.99)], 2)},
    }


async def measure(docs: Sequence[Record], count: int, created: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModelFactory(model)))
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await import_all(bus, number_items(docs, min(WARM, count), "warm"))
        await embed_alone(bus, number_items(docs, min(WARM, count), "warmer"), "warm")
        settle_memory()
        items = number_items(docs, count, "imported")
        before_s = time.process_time()
        import_s, outcomes = await import_all(bus, items)
        import_cpu_s = time.process_time() - before_s
        again_s, again = await import_all(bus, items)
        before_s = time.process_time()
        alone_s = await embed_alone(bus, number_items(docs, count, "alone"), "alone")
        alone_cpu_s = time.process_time() - before_s
        return {
            "embedding_alone_s": round(alone_s, 2),
            "import_s": round(import_s, 2),
            "import_to_embedding": round(import_s / alone_s, 3),
            "processor_import_to_embedding": round(import_cpu_s / alone_cpu_s, 3),
            "outcomes": outcomes,
            "import_again_s": round(again_s, 2),
            "outcomes_again": again,
            "new_items": await time_new_items(bus, created),
        }


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--data", help="folder with */docs.jsonl, instead of generated items")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--created", type=int, default=200, help="items written one by one (%(default)s)")
    given = parser.read_arguments()
    figures = uvloop.run(measure(read_knowledge(given.data, given.count), given.count, given.created))
    bounds = {"import_to_embedding": "<= 1.3", "new_items.found_ms.p99": "<= 300"}
    setting = {"items": given.count, "seed": SEED}
    save_result("knowledge_import", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
