"""An index of 10,000 tools taken to another model, against embedding alone, and searches meanwhile against before.

Claims: the switch takes at most 1.3 times as long as embedding the same texts over the bus and keeping none of them,
and the 99th percentile of searches during it is at most three times that of searches before it. All in one process, as
in standalone. Both models, and a third for the baseline, so that no cache helps, are the default model under three
names: each is as much work.

The tools are those of a file in the form of ../shared/data/tools/tools.jsonl, repeated under other names up to 10,000.

    python benchmarks/model_switch.py --tools tools.jsonl --queries queries.jsonl [--count 10000]
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import uvloop
from measuring import keep, machine
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.logs import configure_logging
from skillbus.common.runner import settle_memory
from skillbus.common.testing import eventually
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    UPDATE_MODEL,
    CreateModel,
    ModelRecord,
    ProviderRecord,
    UpdateModel,
)
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, IndexSwitch, SwitchPhase
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.message import Empty
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.embedder.adapters.local.threaded import threaded
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.kv_catalogue import open_catalogue
from skillbus.indexer.adapters.tool_points import ToolPoints
from skillbus.indexer.domain.catalogue.entry import ToolEntry, entry_of
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tools"
SEARCHES_BEFORE = 400
PAUSE_S = 0.02
WAIT_S = 900.0


class Named:
    """The default model under another name, with vectors that count as another's."""

    def __init__(self, model: UseModel, name: str) -> None:
        self._model = model
        self.spec = replace(model.spec, name=name)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        return self._model.embed(texts, role)


@dataclass(frozen=True, slots=True)
class OneModel:
    """Makes the same model of every name."""

    model: UseModel

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        return Named(self.model, model.name).spec

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        return threaded(Named(self.model, model.name))


def records(tools: Sequence[dict[str, object]], count: int) -> list[SkillRecord]:
    now = datetime.now(UTC)
    made = []
    for number in range(count):
        tool, copy = tools[number % len(tools)], number // len(tools)
        skill = Skill.model_construct(
            project="default",
            name=f"tool-{number}",
            description=f"{tool['description']} {copy}" if copy else str(tool["description"]),
            tags=tuple(str(tag) for tag in tool.get("tags") or ()),  # type: ignore[attr-defined]
            digest=f"{number:064x}",
            content_digest=f"{number:064x}",
            size_bytes=1,
            installed_at=now,
            updated_at=now,
            indexed=True,
        )
        made.append(SkillRecord(skill=skill, skill_md_bytes=1, skill_hash="00000000"))
    return made


async def search(bus: Bus, queries: list[str], took_ms: list[float], stop: asyncio.Event, at_most: int) -> None:
    while not stop.is_set() and len(took_ms) < at_most:
        start = time.perf_counter()
        request = SearchTools(query=f"{queries.pop()} {len(queries)}", limit=10, threshold=0.0)
        found = await bus.caller.call(SEARCH_TOOLS, request)
        took_ms.append((time.perf_counter() - start) * 1000)
        assert found.results
        assert found.degraded is None
        await asyncio.sleep(PAUSE_S)


async def until(bus: Bus, phase: SwitchPhase, model: ModelRecord) -> None:
    async def read() -> IndexSwitch | None:
        await asyncio.sleep(0.1)
        return (await bus.caller.call(LIST_INDEXES, Empty())).indexes[0].switch

    await eventually(
        read,
        lambda switch: switch and switch.phase is phase and switch.target.fingerprint == model.fingerprint,
        wait_s=WAIT_S,
    )


async def until_live(bus: Bus) -> None:
    async def read() -> bool:
        return (await bus.caller.call(LIST_INDEXES, Empty())).indexes[0].live is not None

    await eventually(read, bool, wait_s=WAIT_S)


async def embed_alone(bus: Bus, model: ModelRecord, tools: Sequence[SkillRecord]) -> float:
    points = ToolPoints(bus.caller)
    assert model.fingerprint is not None
    fingerprint = model.fingerprint
    entries = [entry for tool in tools if (entry := entry_of(tool))]

    async def embed(batch: Sequence[ToolEntry]) -> None:
        await points.of(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await in_batches(entries, embed)
    return time.perf_counter() - start


async def switch(bus: Bus, model: ModelRecord) -> float:
    start = time.perf_counter()
    await bus.caller.call(UPDATE_MODEL, UpdateModel(id=model.id, is_default=True))
    await until(bus, SwitchPhase.KEPT, model)
    return time.perf_counter() - start


async def searched_switch(bus: Bus, model: ModelRecord, queries: list[str]) -> list[float]:
    stop, during = asyncio.Event(), list[float]()
    searching = asyncio.create_task(search(bus, queries, during, stop, 1_000_000))
    await switch(bus, model)
    stop.set()
    await searching
    return during


async def measure(tools: Sequence[SkillRecord], queries: list[str]) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModel(model)))
        catalogue = await open_catalogue(bus)
        for record in tools:
            await catalogue.put(record, 0)
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await until_live(bus)
        settle_memory()
        return await compare(bus, tools, queries)


async def compare(bus: Bus, tools: Sequence[SkillRecord], queries: list[str]) -> dict[str, object]:
    baseline, target, searched = [
        await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name=name))
        for name in ("alone", "target", "searched")
    ]
    before: list[float] = []
    await search(bus, queries, [], asyncio.Event(), 20)
    await search(bus, queries, before, asyncio.Event(), SEARCHES_BEFORE)
    alone_s = await embed_alone(bus, baseline, tools)
    switch_s = await switch(bus, target)
    during = await searched_switch(bus, searched, queries)
    return {
        "embedding_alone_s": round(alone_s, 2),
        "switch_s": round(switch_s, 2),
        "switch_to_embedding": round(switch_s / alone_s, 3),
        "searches": {"before": len(before), "during": len(during)},
        "search_before_ms": percentiles(before),
        "search_during_ms": percentiles(during),
        "search_p99_during_to_before": round(percentiles(during)["p99"] / percentiles(before)["p99"], 2),
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": round(float(np.percentile(values, share)), 2) for share in (50, 95, 99)}


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=DATA / "tools.jsonl")
    parser.add_argument("--queries", type=Path, default=DATA / "queries.jsonl")
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    configure_logging("WARNING")
    queries = sorted({str(row["query"])[:300] for row in read(given.queries)})
    random.Random(7).shuffle(queries)
    figures = uvloop.run(measure(records(read(given.tools), given.count), queries))
    bounds = {"switch_to_embedding": "<= 1.3", "search_p99_during_to_before": "<= 3"}
    keep("model_switch", {**machine(), "tools": given.count, "seed": 7, "figures": figures, "bounds": bounds})


if __name__ == "__main__":
    main()
