"""Answers of a running system: imports a catalogue and sends requests over the bus."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from pydantic import JsonValue

from skillbus.calibration.bm25 import Bm25
from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches, measure_json
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import MAX_TOOLS, PUT_TOOLS, PutTools, ToolDescription, ToolPutOutcome
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.evaluation.cases import Case, Cases
from skillbus.evaluation.errors import NotIndexedError, RefusedToolError
from skillbus.evaluation.measures import DEPTH
from skillbus.evaluation.report import Answers
from skillbus.relevance.tool_text import build_tool_aside_text, build_tool_lexical_text

Progress = Callable[[str, int, int], None]
"""Callback with the current step, and how much of how much is done."""

FoundT = TypeVar("FoundT")

PROJECT: Final[Project] = "evaluation"
_AT_A_TIME: Final = 8
"""Concurrent requests. The services share a process, and more would only wait for each other."""


async def collect_answers(caller: Caller, cases: Cases, progress: Progress) -> Answers:
    """Import the catalogue, and send each request twice: without a threshold, and with the default one.

    Raises:
        RefusedToolError: the catalogue refused a tool.
        NotIndexedError: not all tools are indexed.
        RequestError: a service refused a request, or did not answer.
    """
    began = time.perf_counter()
    await _import_tools(caller, cases.tools, progress)
    imported = time.perf_counter()
    nearest = await _search_all(caller, cases.cases, "Searching", 0.0, progress)
    default = await _search_all(caller, cases.cases, "Searching at the default threshold", None, progress)
    asked = time.perf_counter()
    return Answers(
        nearest=_list_ids(nearest),
        default=_list_ids(default),
        bm25=tuple(rank_by_words(cases)),
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
        import_s=imported - began,
        ask_s=asked - imported,
    )


async def _import_tools(caller: Caller, tools: Sequence[ToolDescription], progress: Progress) -> None:
    done, indexed = 0, True
    progress("Importing", done, len(tools))
    for batch in _cut_batches(tools):
        reply = await caller.call(PUT_TOOLS, PutTools(project=PROJECT, tools=batch))
        refused = [result for result in reply.results if result.outcome is ToolPutOutcome.REJECTED]
        if refused:
            raise RefusedToolError(refused[0].id or "", refused[0].error or "it does not say why")
        done, indexed = done + len(batch), indexed and reply.indexed
        progress("Importing", done, len(tools))
    if not indexed:
        raise NotIndexedError


def _cut_batches(tools: Sequence[ToolDescription]) -> Iterator[tuple[JsonValue, ...]]:
    for rows in cut_batches((measure_json(tool) for tool in tools), max_items=MAX_TOOLS):
        yield tuple(tool.model_dump(mode="json", exclude_unset=True) for tool in tools[rows])


async def _search_all(
    caller: Caller, cases: Sequence[Case], step: str, threshold: float | None, progress: Progress
) -> list[ToolsFound]:
    async def search(row: int) -> ToolsFound:
        request = SearchTools(query=cases[row].query, limit=DEPTH, threshold=threshold, project=PROJECT)
        return await caller.call(SEARCH_TOOLS, request)

    return await send_concurrently(len(cases), search, step, progress)


async def send_concurrently(
    count: int, send: Callable[[int], Awaitable[FoundT]], step: str, progress: Progress
) -> list[FoundT]:
    """Send requests 0 to `count`, several at a time, and return their replies. Raises the first RequestError."""
    found: dict[int, FoundT] = {}
    rows = iter(range(count))

    async def work() -> None:
        for row in rows:
            found[row] = await send(row)
            progress(step, len(found), count)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(_AT_A_TIME):
                workers.create_task(work())
    except* RequestError as refused:
        first = refused.exceptions[0]
    else:
        return [found[row] for row in range(count)]
    # Raised here: inside `except*` Python before 3.11.4 would wrap it in another group.
    raise first from None


def _list_ids(answers: Sequence[ToolsFound]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(hit.id for hit in found.results) for found in answers)


def rank_by_words(cases: Cases) -> Iterator[tuple[str, ...]]:
    """Yield the best tools of each request by BM25. Tools without a common word are left out; ties keep their order."""
    index = Bm25(
        [build_tool_lexical_text(it.name, it.description, it.tags, it.parameters, it.examples) for it in cases.tools],
        [build_tool_aside_text(it.provider, it.parameters) for it in cases.tools],
    )
    for case in cases.cases:
        scores = index.compute_scores(case.query)
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        yield tuple(cases.tools[row].id for row in best.tolist() if scores[row] > 0)
