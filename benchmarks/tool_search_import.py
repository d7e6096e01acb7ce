"""Import of described tools, beside embedding the same texts, and how soon a filled system answers again.

Claims: an import of 10,000 tools takes at most 1.3 times as long as their texts take to be embedded, over the same bus
in batches of the same size; opened again, NATS and all services are there within a second. The first search waits for
the embedding model too, whatever the number of tools.
Each arm has a system of its own, since what was embedded is remembered. Import is `put_tools`, with all it does.

    uv run python benchmarks/tool_search_import.py [--tools 10000]
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop
from measuring import keep, machine
from tool_search_corpus import DATA, SEED, Tool, corpus

from skillbus.common.bus.caller import Caller
from skillbus.common.logs import configure_logging
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role
from skillbus.contracts.message import MSGPACK
from skillbus.contracts.retriever import SEARCH_TOOLS, SearchTools
from skillbus.contracts.tools import PUT_TOOLS, PutTools
from skillbus.evaluation.running import open_system
from skillbus.indexer.domain.tool_text import dense_text

BATCH: Final = 250
AT_A_TIME: Final = 2


async def in_batches(tools: Sequence[Tool], work: object) -> float:
    """Seconds for all of them, two batches under way at a time."""
    assert callable(work)
    batches = iter([tools[at : at + BATCH] for at in range(0, len(tools), BATCH)])

    async def worker() -> None:
        for batch in batches:
            await work(batch)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as workers:
        for _ in range(AT_A_TIME):
            workers.create_task(worker())
    return time.perf_counter() - start


async def warm(caller: Caller) -> None:
    """The model is loaded."""
    request = EmbedTexts(texts=("is the model there",), role=Role.QUERY)
    assert (await caller.call(EMBED_TEXTS, request)).model is not None


async def embedded_s(tools: Sequence[Tool]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with open_system(Path(folder)) as bus:
            await warm(bus.caller)

            async def embed(batch: Sequence[Tool]) -> None:
                texts = tuple(dense_text(it.name, it.description, it.tags, it.entry.parameters) for it in batch)
                request = EmbedTexts(texts=texts, role=Role.DOCUMENT)
                reply = await bus.caller.call(EMBED_TEXTS, request, content_type=MSGPACK, timeout_s=60)
                assert reply.dense is not None

            return await in_batches(tools, embed)


async def imported_s(tools: Sequence[Tool], folder: Path) -> float:
    async with open_system(folder) as bus:
        await warm(bus.caller)

        async def put(batch: Sequence[Tool]) -> None:
            reply = await bus.caller.call(PUT_TOOLS, PutTools(tools=tuple(it.described for it in batch)))
            assert reply.indexed
            assert all(result.error is None for result in reply.results)

        return await in_batches(tools, put)


async def answers_again_ms(folder: Path) -> dict[str, object]:
    """From the start of NATS and all services."""
    start = time.perf_counter()
    async with open_system(folder) as bus:
        opened = time.perf_counter()
        found = await bus.caller.call(SEARCH_TOOLS, SearchTools(query="weather forecast", threshold=0.0))
        assert found.results
        answered = time.perf_counter()
        lexical = found.degraded is not None
    return {
        "open": round((opened - start) * 1000),
        "first_answer": round((answered - start) * 1000),
        "first_answer_is_lexical": lexical,
    }


async def measure(tools: Sequence[Tool]) -> dict[str, object]:
    embedding = await embedded_s(tools)
    with tempfile.TemporaryDirectory() as folder:
        importing = await imported_s(tools, Path(folder))
        again = await answers_again_ms(Path(folder))
    return {
        "embedding_s": round(embedding, 2),
        "import_s": round(importing, 2),
        "import_to_embedding": round(importing / embedding, 2),
        "again_ms": again,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tools", type=int, default=10_000)
    given = parser.parse_args()
    configure_logging("ERROR")
    figures = uvloop.run(measure(corpus(given.data, given.tools)))
    bounds = {"import_to_embedding": "<= 1.3", "again_ms.open": "<= 1000"}
    keep("tool_search_import", {**machine(), "tools": given.tools, "seed": SEED, "figures": figures, "bounds": bounds})


if __name__ == "__main__":
    main()
