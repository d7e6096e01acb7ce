"""An import of 10,000 described tools over the bus, against embedding them alone; and how soon a filled index opens.

Claims: the import takes at most 1.3 times as long as embedding the same number of such texts, dense and sparse, over
the bus and keeping none of them; an indexer on a filled store answers within 1 s of being started. All in one process,
as in standalone. What is embedded alone is embedded by the same model under another name, so that no cache helps. The
same import again, which changes nothing, and the memory that a tool takes are told beside it.

The tools are those of a file in the form of ../shared/data/tools/tools.jsonl, repeated under other names up to 10,000.

    python benchmarks/tool_import.py --tools tools.jsonl [--count 10000]
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvloop
from measuring import keep, machine
from model_switch import DATA, OneModel
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.logs import configure_logging
from skillbus.common.runner import settle_memory
from skillbus.contracts.embedder.registry import CREATE_MODEL, CreateModel
from skillbus.contracts.endpoint import Health
from skillbus.contracts.indexer import HEALTH
from skillbus.contracts.indexer.skills import GET_STATUS
from skillbus.contracts.indexer.tools import AUDIT_INDEX, LIST_TOOLS, PUT_TOOLS, AuditIndex, ListTools, PutTools
from skillbus.contracts.message import Empty
from skillbus.embedder.adapters.local.use_model import UseModel
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.adapters.tool_points import ToolPoints
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.tool import digest_of
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.tool.description import read_description
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

AT_A_TIME = 250
REQUESTS_AT_ONCE = 2

Line = dict[str, JsonValue]


def lines(tools: Sequence[Line], count: int, mark: str) -> list[Line]:
    """So many descriptions; those of another `mark` are other texts."""
    made = []
    for number in range(count):
        tool, copy = tools[number % len(tools)], number // len(tools)
        fields = {name: tool[name] for name in ("tool_type", "tags", "parameters", "source") if name in tool}
        name, description = f"{tool['name']}"[:180], f"{tool['description']}"[:8000]
        made.append(
            {**fields, "id": f"{mark}.{number}", "name": f"{name}{copy or ''}", "description": f"{description} {mark}"}
        )
    return made


def entry(line: Line) -> ToolEntry:
    tool = read_description(line, None)
    return ToolEntry(
        project="default",
        tool_id=tool.id,
        tool_type=tool.tool_type,
        name=tool.name,
        description=tool.description,
        source=tool.source,
        digest=digest_of(tool),
        tags=tool.tags,
        parameters=tool.parameters,
    )


async def embed_alone(bus: Bus, tools: Sequence[Line]) -> float:
    model = await bus.caller.call(CREATE_MODEL, CreateModel(provider="local", name="alone"))
    assert model.fingerprint is not None
    points, fingerprint, entries = ToolPoints(bus.caller), model.fingerprint, [entry(line) for line in tools]

    async def embed(batch: Sequence[ToolEntry]) -> None:
        await points.of(fingerprint, batch, dense_required=True)

    start = time.perf_counter()
    await in_batches(entries, embed)
    return time.perf_counter() - start


async def import_all(bus: Bus, tools: Sequence[Line]) -> tuple[float, Counter[str]]:
    """As `skillbus import tools` does: some requests under way."""
    outcomes: Counter[str] = Counter()
    requests = iter([tools[at : at + AT_A_TIME] for at in range(0, len(tools), AT_A_TIME)])

    async def send() -> None:
        for request in requests:
            reply = await bus.caller.call(PUT_TOOLS, PutTools(tools=tuple(request)))
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


async def measure(tools: Sequence[Line], count: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(open_nats_server(data / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        model = UseModel(threads=1)
        model.load()
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data), OneModel(model)))
        async with an_indexer(bus, data):
            figures = await imports(bus, tools, count)
        settle_memory()
        async with an_indexer(bus, data) as reopened_s:
            figures["reopened_s"] = round(reopened_s, 3)
            figures |= await reads(bus)
        return figures


async def imports(bus: Bus, tools: Sequence[Line], count: int) -> dict[str, object]:
    await import_all(bus, lines(tools, 200, "warm"))
    await embed_alone_of(bus, tools)
    settle_memory()
    described, before = lines(tools, count, "imported"), resident_bytes()
    import_s, outcomes = await import_all(bus, described)
    grown = resident_bytes() - before
    again_s, again = await import_all(bus, described)
    alone_s = await embed_alone(bus, lines(tools, count, "alone"))
    return {
        "embedding_alone_s": round(alone_s, 2),
        "import_s": round(import_s, 2),
        "import_to_embedding": round(import_s / alone_s, 3),
        "outcomes": outcomes,
        "import_again_s": round(again_s, 2),
        "outcomes_again": again,
        "memory_bytes_a_tool": round(grown / count),
    }


async def embed_alone_of(bus: Bus, tools: Sequence[Line]) -> None:
    """Warm what embeds."""
    points = ToolPoints(bus.caller)
    status = await bus.caller.call(GET_STATUS, Empty())
    assert status.model is not None
    await points.of(status.model, [entry(line) for line in lines(tools, 32, "warmer")], dense_required=True)


async def reads(bus: Bus) -> dict[str, object]:
    start = time.perf_counter()
    listed = await bus.caller.call(LIST_TOOLS, ListTools(limit=100), timeout_s=60)
    listed_s = time.perf_counter() - start
    audited = await bus.caller.call(AUDIT_INDEX, AuditIndex())
    audited_s = time.perf_counter() - start - listed_s
    assert not audited.differences, audited
    return {"tools": listed.total, "page_of_100_s": round(listed_s, 3), "audit_s": round(audited_s, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=DATA / "tools.jsonl")
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    configure_logging("WARNING")
    tools = [json.loads(line) for line in given.tools.read_text("utf-8").splitlines()]
    figures = uvloop.run(measure(tools, given.count))
    bounds = {"import_to_embedding": "<= 1.3", "reopened_s": "<= 1"}
    keep("tool_import", {**machine(), "tools": given.count, "figures": figures, "bounds": bounds})


if __name__ == "__main__":
    main()
