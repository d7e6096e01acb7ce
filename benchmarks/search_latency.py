"""Search over the bus with 10,000 tools, against the model's and the vector store's own time in process.

Claims: a new query text takes at most 3 ms more than the model and the store's own calls in process, and at most 8 ms;
a text seen before at most 3 ms. New texts run in turns with the bare work, texts seen before after them; all in one
process, as in standalone, where the retriever asks the embedder without the server (ADR 0020); medians. The queries are
those of the data, 137 characters in the median: the model takes three times as long for them as for a short request.

The tools are those of a file in the form of ../shared/data/tools/tools.jsonl, repeated under other names up to 10,000.

    python benchmarks/search_latency.py --tools tools.jsonl --queries queries.jsonl [--rounds 200]
"""

import argparse
import json
import random
import tempfile
import time
from array import array
from collections.abc import Sequence
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
from skillbus.common.bus.provision import provision
from skillbus.common.logs import configure_logging
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import load_lexicon
from skillbus.relevance.score import NEUTRAL
from skillbus.relevance.sentences import split_sentences
from skillbus.relevance.tool_text import build_tool_dense_text, build_tool_lexical_text
from skillbus.retriever.adapters.vector_tools import VectorTools
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.search import Wanted
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import DENSE, LEXICAL, CollectionSpec, VectorStore, datasets, open_vector_store, point_id
from skillbus.vectors.directions import mean_of

TOOLS = 10_000
CANDIDATES = 20
SEEN = 20
"""Different texts among those that were seen before."""
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tools"


@dataclass(frozen=True, slots=True)
class Arms:
    """What is timed."""

    bus: Bus
    tools: VectorTools
    model: UseModel
    lexical: LexicalEncoder

    async def over_the_bus(self, query: str) -> None:
        found = await self.bus.caller.call(SEARCH_TOOLS, SearchTools(query=query, limit=10, threshold=0.0))
        assert found.results
        assert found.degraded is None

    async def in_process(self, query: str) -> None:
        """The model, and what the search asks of the store: candidates of both sides, their cosines, sixteen tools."""
        parts = split_sentences(query)
        rows = self.model.embed(list(parts or (query,)), TextRole.QUERY)
        sparse = self.lexical.encode_query(query)
        embedded = EmbeddedQuery(
            array("f", mean_of(rows).tobytes()),
            sparse.indices.tolist(),
            sparse.values.tolist(),
            sparse.terms,
            None,
            NEUTRAL,
            tuple(array("f", row.tobytes()) for row in rows) if parts else (),
        )
        live = await self.tools.live()
        assert live is not None
        found = await self.tools.candidates(live, embedded, Wanted("default", (), (), (), CANDIDATES))
        await self.tools.tools(live, [candidate.id for candidate in found[:16]])


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def fill(store: VectorStore, collection: str, tools: Sequence[dict[str, object]], model: UseModel) -> None:
    """10,000 points: each tool of the file, then the same again under other names with vectors slightly turned."""
    lexical, dice = LexicalEncoder(), np.random.default_rng(7)
    rows = np.concatenate(
        [
            model.embed([text(tool, build_tool_dense_text) for tool in tools[at : at + 64]], TextRole.DOCUMENT)
            for at in range(0, len(tools), 64)
        ]
    )
    for at in range(0, TOOLS, 100):
        await store.upsert(collection, [point(number, tools, rows, lexical, dice) for number in range(at, at + 100)])


def text(tool: dict[str, object], form: object) -> str:
    assert callable(form)
    return str(form(str(tool["name"]), str(tool["description"]), tuple(tool.get("tags") or ())))  # type: ignore[arg-type]


def point(
    number: int,
    tools: Sequence[dict[str, object]],
    rows: NDArray[np.float32],
    lexical: LexicalEncoder,
    dice: np.random.Generator,
) -> models.PointStruct:
    tool, copy = tools[number % len(tools)], number // len(tools)
    sparse = lexical.encode_document(text(tool, build_tool_lexical_text))
    row = rows[number % len(tools)] + (dice.normal(0, 0.01, rows.shape[1]).astype(np.float32) if copy else 0)
    name = f"{tool['name']}-{copy}" if copy else str(tool["name"])
    payload = {
        "project": "default",
        "tool_id": f"{tool['id']}-{copy}",
        "tool_type": tool["tool_type"],
        "name": name,
        "description": tool["description"],
        "tags": tool.get("tags") or [],
        "metadata": {"type": tool["tool_type"]},
    }
    vector: dict[str, models.Vector] = {
        DENSE: (row / np.linalg.norm(row)).tolist(),
        LEXICAL: models.SparseVector(indices=sparse.indices.tolist(), values=sparse.values.tolist()),
    }
    return models.PointStruct(id=point_id("default", str(payload["tool_id"])), vector=vector, payload=payload)


async def measure(tools: Sequence[dict[str, object]], queries: list[str], rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        model = UseModel(threads=1)
        model.load()
        collection = datasets.TOOLS.collection_of(model.spec.fingerprint)
        await store.ensure_collection(collection, CollectionSpec(dim=model.spec.dim))
        await fill(store, collection, tools, model)
        await store.switch_aliases({datasets.TOOLS.alias: collection})
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        lexical = LexicalEncoder(translate=load_lexicon().translate_word)
        return await compare(Arms(bus, VectorTools(store), model, lexical), queries, rounds)


async def compare(arms: Arms, queries: list[str], rounds: int) -> dict[str, object]:
    new, bare, added = [], [], []
    settle_memory()  # as every service and standalone, once they are ready
    for _ in range(20):  # warm up
        await arms.over_the_bus(queries.pop())
        await arms.in_process(queries.pop())
    seen = queries[-SEEN:]
    for _ in range(rounds):
        query = queries.pop()
        alone = await timed(arms.in_process(query))
        whole = await timed(arms.over_the_bus(query))
        new.append(whole)
        bare.append(alone)
        added.append(whole - alone)
    for text_ in seen:
        await arms.over_the_bus(text_)
    known = [await timed(arms.over_the_bus(seen[turn % SEEN])) for turn in range(rounds)]
    return {
        "new_query_ms": spread(new),
        "in_process_ms": spread(bare),
        "added_ms": spread(added),
        "known_query_ms": spread(known),
        "new_query_to_in_process": round(spread(new)["p50"] / spread(bare)["p50"], 2),
    }


async def timed(work: object) -> float:
    start = time.perf_counter()
    await work  # type: ignore[misc]
    return (time.perf_counter() - start) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=DATA / "tools.jsonl")
    parser.add_argument("--queries", type=Path, default=DATA / "queries.jsonl")
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    configure_logging("WARNING")
    queries = sorted({str(row["query"])[:300] for row in read(given.queries)})
    random.Random(7).shuffle(queries)
    figures = uvloop.run(measure(read(given.tools), queries, given.rounds))
    bounds = {"added_ms.p50": "<= 3", "new_query_ms.p50": "<= 8", "known_query_ms.p50": "<= 3"}
    keep(
        "search_latency",
        {**machine(), "tools": TOOLS, "rounds": given.rounds, "seed": 7, "figures": figures, "bounds": bounds},
    )


if __name__ == "__main__":
    main()
