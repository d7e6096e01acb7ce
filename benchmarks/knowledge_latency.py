"""Searches of a knowledge base of 10,000 items over the bus, against the model's and the store's own time in process.

Claims: a new query text takes at most 10 ms, and at most 4 ms more than the model and the store's own calls in process.
What is added is the way over the bus, the record on SQLite, and the ranking; and, once a second, that the learner is
told of the uses. New texts run in turns with the bare work and without a pause, then again with one before each, after
which a processor needs half as long again for anything; texts seen before after them; all in one process, as in
standalone; medians.

The items are those of files in the form of ../shared/data/knowledge/*/docs.jsonl, repeated under other ids up to
10,000. They are put into the record by the learner, and into the index by this script.

    python benchmarks/knowledge_latency.py [--data FOLDER] [--rounds 200]
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from array import array
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvloop
from measuring import keep, machine, spread
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from qdrant_client import models

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.provision import provision
from skillbus.common.logs import configure_logging
from skillbus.common.runner import settle_memory
from skillbus.common.testing import eventually
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.learner.bulk import PUT_KNOWLEDGE, PutKnowledge
from skillbus.contracts.learner.index import (
    KNOWLEDGE_INDEXED,
    LIST_KNOWLEDGE_DIGESTS,
    KnowledgeIndexed,
    KnowledgeItemDigest,
    KnowledgeKey,
    ListKnowledgeDigests,
)
from skillbus.contracts.learner.knowledge import MAX_IDS, KnowledgeRef
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, SearchKnowledge
from skillbus.contracts.scope import get_scope_key, list_ancestor_keys, normalize_scope
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.relevance.knowledge_text import (
    MEAN_TERMS,
    build_item_aside_text,
    build_item_dense_texts,
    build_item_lexical_text,
)
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import load_lexicon
from skillbus.relevance.score import NEUTRAL
from skillbus.retriever.adapters.vector_knowledge import VectorKnowledge
from skillbus.retriever.domain.knowledge.ports import WantedKnowledge
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, VectorStore, open_vector_store
from skillbus.vectors.datasets import KNOWLEDGE
from skillbus.vectors.directions import mean_of

ITEMS = 10_000
CANDIDATES = 20
REST_S = 0.02
"""Before each search of those that are called rested."""
SEEN = 20
"""Different texts among those that were seen before."""
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "knowledge"
SETS = ("apisix_bilingual", "covid_faq_en", "cmrc_zh")
OPEN = (-62_135_596_800.0, 253_402_300_800.0)


@dataclass(frozen=True, slots=True)
class Document:
    """What the files say of an item."""

    title: str
    content: str
    type: str
    scope: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arms:
    """What is timed."""

    bus: Bus
    index: VectorKnowledge
    model: UseModel
    lexical: LexicalEncoder

    async def over_the_bus(self, query: str) -> None:
        found = await self.bus.caller.call(SEARCH_KNOWLEDGE, asked(query))
        assert len(found.results) == 5, len(found.results)
        assert found.degraded is None
        assert all(hit.indexed for hit in found.results)

    async def in_process(self, query: str) -> None:
        """The model, and what the search asks of the store: candidates of both sides, their cosines, and terms."""
        (row,) = self.model.embed([query], TextRole.QUERY)
        sparse = self.lexical.encode_query(query)
        indices, values = sparse.indices.tolist(), sparse.values.tolist()
        embedded = EmbeddedQuery(array("f", row.tobytes()), indices, values, sparse.terms, None, NEUTRAL)
        live = await self.index.live()
        assert live is not None
        wanted = WantedKnowledge(asked(query), ("default",), time.time(), CANDIDATES)
        found = await self.index.candidates(live, embedded, wanted)
        await self.index.terms(live, [one.id for one in found[:10]])


def asked(query: str) -> SearchKnowledge:
    return SearchKnowledge(query=query, top_k=5, threshold=0.0)


def documents(folder: Path) -> list[Document]:
    rows = [json.loads(line) for name in SETS for line in (folder / name / "docs.jsonl").open(encoding="utf-8")]
    return [
        Document(row["title"], row["content"], row["type"], normalize_scope(row.get("scope", "")), tuple(row["tags"]))
        for row in rows
    ]


def queries_of(folder: Path) -> list[str]:
    rows = [json.loads(line) for name in SETS for line in (folder / name / "queries.jsonl").open(encoding="utf-8")]
    queries = sorted({str(row["query"])[:300] for row in rows if str(row["query"]).strip()})
    random.Random(7).shuffle(queries)
    return queries


async def record(bus: Bus, given: Sequence[Document]) -> dict[str, KnowledgeItemDigest]:
    """Put 10,000 items into the record, and tell it that the index has them. By external id."""
    ids: dict[str, str] = {}
    for at in range(0, ITEMS, 200):
        lines = [line(given[number % len(given)], number) for number in range(at, at + 200)]
        put = await bus.caller.call(PUT_KNOWLEDGE, PutKnowledge(items=tuple(lines)))
        ids |= {str(one.id): str(one.external_id) for one in put.results}
    digests: dict[str, KnowledgeItemDigest] = {}
    after: KnowledgeKey | None = None
    while len(digests) < ITEMS:
        page = await bus.caller.call(LIST_KNOWLEDGE_DIGESTS, ListKnowledgeDigests(after=after))
        digests |= {ids[one.id]: one for one in page.items}
        after = page.next
    refs = [KnowledgeRef(project=one.project, id=one.id, version=one.version) for one in digests.values()]
    for at in range(0, ITEMS, MAX_IDS):
        told = KnowledgeIndexed(items=tuple(refs[at : at + MAX_IDS]))
        await publish_event(bus, KNOWLEDGE_INDEXED, told, identity="bench", message_id=f"bench-{at}", project="default")
    await eventually(lambda: unindexed(bus), lambda left: left == 0, wait_s=60)
    return digests


async def unindexed(bus: Bus) -> int:
    return (await bus.caller.call(GET_KNOWLEDGE_STATS, GetKnowledgeStats(limit=0))).unindexed


def line(document: Document, number: int) -> dict[str, object]:
    return {
        "id": f"bench-{number}",
        "type": document.type,
        "title": document.title,
        "content": document.content,
        "scope": document.scope,
        "tags": list(document.tags),
    }


async def index(
    store: VectorStore, given: Sequence[Document], model: UseModel, digests: dict[str, KnowledgeItemDigest]
) -> None:
    """10,000 points: each document, then the same again under other ids with vectors slightly turned."""
    collection = KNOWLEDGE.collection_of(model.spec.fingerprint)
    keywords = ("type", "tags", "source", "scope_fixed", "scope_above")
    numbers = ("valid_from", "valid_to")
    await store.ensure_collection(collection, CollectionSpec(model.spec.dim, keywords, numbers=numbers))
    await store.switch_aliases({KNOWLEDGE.alias: collection})
    rows = [mean_of(embedded(model, build_item_dense_texts(one.title, one.content))) for one in given]
    lexical, dice = LexicalEncoder().with_average_terms(MEAN_TERMS), np.random.default_rng(7)
    for at in range(0, ITEMS, 100):
        numbers_ = range(at, at + 100)
        points = [point(n, given, rows, lexical, dice, digests[f"bench-{n}"]) for n in numbers_]
        await store.upsert(collection, points)


def embedded(model: UseModel, texts: Sequence[str]) -> NDArray[np.float32]:
    return model.embed(list(texts), TextRole.DOCUMENT)


def point(
    number: int,
    given: Sequence[Document],
    rows: Sequence[NDArray[np.float32]],
    lexical: LexicalEncoder,
    dice: np.random.Generator,
    digest: KnowledgeItemDigest,
) -> models.PointStruct:
    at, copy = number % len(given), number // len(given)
    one = given[at]
    sparse = lexical.encode_document(
        build_item_lexical_text(one.title, one.content, one.tags), build_item_aside_text(one.scope)
    )
    row = rows[at]
    if copy:
        row = row + dice.normal(0, 0.01, row.shape).astype(np.float32)
    payload = {
        "project": digest.project,
        "item_id": digest.id,
        "version": digest.version,
        "type": one.type,
        "tags": list(one.tags),
        "source": "import",
        "scope_fixed": get_scope_key(one.scope),
        "scope_above": list(list_ancestor_keys(one.scope)),
        "valid_from": OPEN[0],
        "valid_to": OPEN[1],
        "content_hash": digest.digest,
    }
    vector: dict[str, models.Vector] = {
        DENSE: (row / np.linalg.norm(row)).tolist(),
        LEXICAL: models.SparseVector(indices=sparse.indices.tolist(), values=sparse.values.tolist()),
    }
    return models.PointStruct(id=digest.id, vector=vector, payload=payload)


async def measure(given: Sequence[Document], queries: list[str], rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_learner(bus, LearnerSettings(data=data, wait_indexed_s=0)))
        await index(store, given, model, await record(bus, given))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        lexical = LexicalEncoder(translate=load_lexicon().translate_word)
        settle_memory()
        return await compare(Arms(bus, VectorKnowledge(store), model, lexical), queries, rounds)


async def compare(arms: Arms, queries: list[str], rounds: int) -> dict[str, object]:
    for _ in range(20):  # warm up
        await arms.over_the_bus(queries.pop())
        await arms.in_process(queries.pop())
    seen = queries[-SEEN:]
    figures = await in_turns(arms, queries, rounds, 0.0)
    rested = await in_turns(arms, queries, rounds, REST_S)
    for text in seen:
        await arms.over_the_bus(text)
    known = [await timed(arms.over_the_bus(seen[turn % SEEN])) for turn in range(rounds)]
    return {**figures, "known_query_ms": spread(known), "rested": rested}


async def in_turns(arms: Arms, queries: list[str], rounds: int, rest_s: float) -> dict[str, object]:
    new, bare, added = [], [], []
    for _ in range(rounds):
        query = queries.pop()
        alone = await timed(arms.in_process(query), rest_s)
        whole = await timed(arms.over_the_bus(query), rest_s)
        new.append(whole)
        bare.append(alone)
        added.append(whole - alone)
    return {
        "new_query_ms": spread(new),
        "in_process_ms": spread(bare),
        "added_ms": spread(added),
        "new_query_to_in_process": round(spread(new)["p50"] / spread(bare)["p50"], 2),
    }


async def timed(work: Awaitable[None], rest_s: float = 0.0) -> float:
    if rest_s:
        await asyncio.sleep(rest_s)
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    configure_logging("WARNING")
    figures = uvloop.run(measure(documents(given.data), queries_of(given.data), given.rounds))
    bounds = {"new_query_ms.p50": "<= 10", "added_ms.p50": "<= 4"}
    keep(
        "knowledge_latency",
        {**machine(), "items": ITEMS, "rounds": given.rounds, "seed": 7, "figures": figures, "bounds": bounds},
    )


if __name__ == "__main__":
    main()
