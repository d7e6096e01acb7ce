"""Switch of an index of 10,000 tools to another model, against embedding alone; searches during it, against before.

Claims: the switch takes at most 1.3 times as long as embedding the same texts over the bus without storing them, and
the 99th percentile of searches during it is at most three times the one before. Everything runs in one process, as in
standalone. Both models, and a third one for the baseline, are the default model under three names: the work is equal
and no cache helps.

    python benchmarks/model_switch.py [--count 10000] [--tools tools.jsonl --queries queries.jsonl]
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import uvloop
from generator import SEED, Record, read_queries, read_tools
from measuring import BenchmarkParser, open_bench_bus, save_result
from numpy.typing import NDArray

from skillbus.common.bus.connection import Bus
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
from skillbus.embedder.adapters.local.threaded import ThreadedModel
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.domain.model import AsyncModel, ModelSpec
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.kv_catalogue import KvSkills
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.indexer.domain.catalogue.entry import ToolEntry, make_skill_entry
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

PAUSE_S = 0.02
WAIT_S = 900.0


class RenamedModel:
    """The default model under another name, with a fingerprint of its own."""

    def __init__(self, model: UseModel, name: str) -> None:
        self._model = model
        self.spec = replace(model.spec, name=name)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        return self._model.embed(texts, role)


@dataclass(frozen=True, slots=True)
class OneModelFactory:
    """Factory that makes the default model for every name."""

    model: UseModel

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        return RenamedModel(self.model, model.name).spec

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> AsyncModel:
        return ThreadedModel(RenamedModel(self.model, model.name))


def make_records(tools: Sequence[Record], count: int) -> list[SkillRecord]:
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
        request = SearchTools(
            query=f"{queries[len(took_ms) % len(queries)]} {time.perf_counter_ns()}", limit=10, threshold=0.0
        )
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
    entries = [entry for tool in tools if (entry := make_skill_entry(tool))]

    async def embed(batch: Sequence[ToolEntry]) -> None:
        await points.build_points(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await write_batches(entries, embed)
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


async def measure(tools: Sequence[SkillRecord], queries: list[str], searches: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModelFactory(model)))
        catalogue = KvSkills(bus)
        for record in tools:
            await catalogue.save_skill(record, 0)
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await until_live(bus)
        settle_memory()
        return await compare(bus, tools, queries, searches)


async def compare(bus: Bus, tools: Sequence[SkillRecord], queries: list[str], searches: int) -> dict[str, object]:
    baseline, target, searched = [
        await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name=name))
        for name in ("alone", "target", "searched")
    ]
    before: list[float] = []
    await search(bus, queries, [], asyncio.Event(), 20)
    await search(bus, queries, before, asyncio.Event(), searches)
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


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--tools", help="descriptions of tools as NDJSON, instead of generated ones")
    parser.add_argument("--queries", help="queries as NDJSON, instead of generated ones")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=400, help="searches before the switch (%(default)s)")
    given = parser.read_arguments()
    tools, queries = make_records(read_tools(given.tools, given.count), given.count), read_queries(given.queries, 500)
    figures = uvloop.run(measure(tools, queries, given.searches))
    bounds = {"switch_to_embedding": "<= 1.3", "search_p99_during_to_before": "<= 3"}
    setting = {"tools": given.count, "searches": given.searches, "seed": SEED}
    save_result("model_switch", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
