"""An import of 10,000 items of knowledge over the bus, against embedding them alone; and how soon a new item is found.

Claims: the import, until the index has all of it, takes at most 1.3 times as long as embedding the same number of such
items, dense and sparse, over the bus and keeping none of them; a new item is found at most 300 ms after it was asked to
be written, in 99 of 100 cases. All in one process, as in standalone. What is embedded alone is embedded by the same
model under another name, so that no cache helps. The same import again, which changes nothing, and the ratio of
processor times are told beside it.

The items are those of files in the form of ../shared/data/knowledge/*/docs.jsonl, repeated under other ids up to
10,000.

    python benchmarks/knowledge_import.py [--data FOLDER] [--count 10000]
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import uvloop
from knowledge_latency import DATA, SETS
from measuring import keep, machine, spread
from model_switch import OneModel
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.logs import configure_logging
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.registry import CREATE_MODEL, CreateModel
from skillbus.contracts.learner.bulk import MAX_ITEMS, PUT_KNOWLEDGE, PutKnowledge
from skillbus.contracts.learner.items import CREATE_KNOWLEDGE, CreateKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem, KnowledgeType
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.knowledge_points import KnowledgePoints
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntry
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

REQUESTS_AT_ONCE = 2
LOOK_AGAIN_S = 0.02
CREATED = 200
WARM = 200

Line = dict[str, JsonValue]


def lines(docs: Sequence[Line], count: int, mark: str) -> list[Line]:
    """So many items; those of another `mark` are other texts."""
    return [
        {
            **(doc := docs[number % len(docs)]),
            "id": f"{mark}.{number}",
            "content": f"{doc['content']} {mark}{number // len(docs)}",
        }
        for number in range(count)
    ]


def entry(line: Line) -> KnowledgeEntry:
    now, draft = datetime.now(UTC), KnowledgeDraft.model_validate(line)
    item = KnowledgeItem(
        **draft.model_dump(), id=str(uuid4()), version=1, digest="0" * 64, created_at=now, updated_at=now
    )
    return KnowledgeEntry(item)


async def embed_alone(bus: Bus, docs: Sequence[Line], name: str) -> float:
    model = await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name=name))
    assert model.fingerprint is not None
    points, fingerprint, entries = KnowledgePoints(bus.caller), model.fingerprint, [entry(line) for line in docs]

    async def embed(batch: Sequence[KnowledgeEntry]) -> None:
        await points.of(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await in_batches(entries, embed)
    return time.perf_counter() - start


async def import_all(bus: Bus, items: Sequence[Line]) -> tuple[float, Counter[str]]:
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


async def created(bus: Bus) -> dict[str, object]:
    """Milliseconds from the request to write an item until a search that shows it has answered, and until written."""
    written, found = list[float](), list[float]()
    indexed = 0
    for number in range(CREATED):
        word = f"zq{number}x"
        draft = CreateKnowledge(type=KnowledgeType.BUSINESS_RULE, title=f"Rule {word}", content=f"{word} needs a key.")
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
        "created": CREATED,
        "indexed_in_the_reply": indexed,
        "written_ms": spread(written),
        "found_ms": {**spread(found), "p99": round(ordered[int(len(ordered) * 0.99)], 2)},
    }


async def measure(docs: Sequence[Line], count: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModel(model)))
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await import_all(bus, lines(docs, WARM, "warm"))
        await embed_alone(bus, lines(docs, WARM, "warmer"), "warm")
        settle_memory()
        items = lines(docs, count, "imported")
        before_s = time.process_time()
        import_s, outcomes = await import_all(bus, items)
        import_cpu_s = time.process_time() - before_s
        again_s, again = await import_all(bus, items)
        before_s = time.process_time()
        alone_s = await embed_alone(bus, lines(docs, count, "alone"), "alone")
        alone_cpu_s = time.process_time() - before_s
        return {
            "embedding_alone_s": round(alone_s, 2),
            "import_s": round(import_s, 2),
            "import_to_embedding": round(import_s / alone_s, 3),
            "processor_import_to_embedding": round(import_cpu_s / alone_cpu_s, 3),
            "outcomes": outcomes,
            "import_again_s": round(again_s, 2),
            "outcomes_again": again,
            "new_items": await created(bus),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    configure_logging("ERROR")
    docs = [json.loads(line) for name in SETS for line in (given.data / name / "docs.jsonl").open(encoding="utf-8")]
    figures = uvloop.run(measure(docs, given.count))
    bounds = {"import_to_embedding": "<= 1.3", "new_items.found_ms.p99": "<= 300"}
    keep("knowledge_import", {**machine(), "items": given.count, "figures": figures, "bounds": bounds})


if __name__ == "__main__":
    main()
