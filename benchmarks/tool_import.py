"""Import of 10,000 described tools over the bus, against embedding them alone; and the time to reopen a full index.

Claims: the import takes at most 1.3 times as long as embedding the same number of such texts, dense and sparse, over
the bus without storing them; an indexer on a full store is ready within 1 s. Everything runs in one process, as in
standalone. The baseline embeds other texts with the same model under another name, so that no cache helps. The script
also reports the same import again, which changes nothing, and the memory per tool.

    python benchmarks/tool_import.py [--count 10000] [--tools tools.jsonl]
"""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvloop
from generator import SEED, Record, read_tools
from measuring import BenchmarkParser, open_bench_bus, save_result
from model_switch import OneModelFactory

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.registry import CREATE_MODEL, CreateModel
from skillbus.contracts.endpoint import Health
from skillbus.contracts.indexer import HEALTH
from skillbus.contracts.indexer.skills import GET_STATUS
from skillbus.contracts.indexer.tools import AUDIT_INDEX, LIST_TOOLS, PUT_TOOLS, AuditIndex, ListTools, PutTools
from skillbus.contracts.message import Empty
from skillbus.embedder.adapters.local.use_multilingual import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.points.tool_points import ToolPoints
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.tool import hash_description
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.tool.description import parse_description
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import open_vector_store

AT_A_TIME = 250
REQUESTS_AT_ONCE = 2


def number_tools(tools: Sequence[Record], count: int, mark: str) -> list[Record]:
    """Return `count` descriptions with ids of their own; another `mark` gives other texts."""
    made = []
    for number in range(count):
        tool, copy = tools[number % len(tools)], number // len(tools)
        fields = {name: tool[name] for name in ("tags", "parameters") if name in tool}
        name, description = f"{tool['name']}"[:180], f"{tool['description']}"[:8000]
        made.append(
            {**fields, "id": f"{mark}.{number}", "name": f"{name}{copy or ''}", "description": f"{description} {mark}"}
        )
    return made


def entry(line: Record) -> ToolEntry:
    tool = parse_description(line, None)
    return ToolEntry(
        project="default",
        tool_id=tool.id,
        tool_type=tool.tool_type,
        name=tool.name,
        description=tool.description,
        source=tool.source,
        digest=hash_description(tool),
        tags=tool.tags,
        parameters=tool.parameters,
    )


async def embed_alone(bus: Bus, tools: Sequence[Record]) -> float:
    model = await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name="alone"))
    assert model.fingerprint is not None
    points, fingerprint, entries = ToolPoints(bus.caller), model.fingerprint, [entry(line) for line in tools]

    async def embed(batch: Sequence[ToolEntry]) -> None:
        await points.build_points(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await write_batches(entries, embed)
    return time.perf_counter() - start


async def import_all(bus: Bus, tools: Sequence[Record], source: str | None = None) -> tuple[float, Counter[str]]:
    """As `skillbus tools import` does: some requests under way."""
    outcomes: Counter[str] = Counter()
    requests = iter([tools[at : at + AT_A_TIME] for at in range(0, len(tools), AT_A_TIME)])

    async def send() -> None:
        for request in requests:
            reply = await bus.caller.call(PUT_TOOLS, PutTools(tools=tuple(request), source=source))
            assert reply.indexed
            outcomes.update(result.outcome for result in reply.results)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(REQUESTS_AT_ONCE):
            tasks.create_task(send())
    return time.perf_counter() - start, outcomes


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


@asynccontextmanager
async def an_indexer(bus: Bus, data: Path) -> AsyncGenerator[float]:
    """Store and indexer; tells in how many seconds it was ready."""
    start = time.perf_counter()
    async with (
        open_vector_store(None, data / "vectors") as store,
        open_indexer(bus, IndexerSettings(data=data), store),
    ):
        health: Health = await bus.caller.call(HEALTH, Empty())
        assert health.ready, health
        yield time.perf_counter() - start


async def measure(tools: Sequence[Record], count: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModelFactory(model)))
        async with an_indexer(bus, data):
            figures = await imports(bus, tools, count)
        settle_memory()
        async with an_indexer(bus, data) as reopened_s:
            figures["reopened_s"] = round(reopened_s, 3)
            figures |= await reads(bus)
        return figures


async def imports(bus: Bus, tools: Sequence[Record], count: int) -> dict[str, object]:
    await import_all(bus, number_tools(tools, 200, "warm"))
    await embed_alone_of(bus, tools)
    settle_memory()
    described, before = number_tools(tools, count, "imported"), resident_bytes()
    import_s, outcomes = await import_all(bus, described)
    grown = resident_bytes() - before
    again_s, again = await import_all(bus, described)
    alone_s = await embed_alone(bus, number_tools(tools, count, "alone"))
    return {
        "embedding_alone_s": round(alone_s, 2),
        "import_s": round(import_s, 2),
        "import_to_embedding": round(import_s / alone_s, 3),
        "outcomes": outcomes,
        "import_again_s": round(again_s, 2),
        "outcomes_again": again,
        "memory_bytes_a_tool": round(grown / count),
    }


async def embed_alone_of(bus: Bus, tools: Sequence[Record]) -> None:
    """Warm what embeds."""
    points = ToolPoints(bus.caller)
    status = await bus.caller.call(GET_STATUS, Empty())
    assert status.model is not None
    await points.build_points(
        status.model, [entry(line) for line in number_tools(tools, 32, "warmer")], dense_required=True
    )


async def reads(bus: Bus) -> dict[str, object]:
    start = time.perf_counter()
    listed = await bus.caller.call(LIST_TOOLS, ListTools(limit=100), timeout_s=60)
    listed_s = time.perf_counter() - start
    audited = await bus.caller.call(AUDIT_INDEX, AuditIndex())
    audited_s = time.perf_counter() - start - listed_s
    assert not audited.differences, audited
    return {"tools": listed.total, "page_of_100_s": round(listed_s, 3), "audit_s": round(audited_s, 3)}


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--tools", help="descriptions of tools as NDJSON, instead of generated ones")
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.read_arguments()
    figures = uvloop.run(measure(read_tools(given.tools, given.count), given.count))
    bounds = {"import_to_embedding": "<= 1.3", "reopened_s": "<= 1"}
    save_result("tool_import", {"tools": given.count, "seed": SEED, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
