"""A catalogue put into a running system, and requests made to it, over the bus."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from pydantic import JsonValue

from skillbus.calibration.bm25 import Bm25
from skillbus.common.bus.caller import Caller
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
"""Says in which step it is, and how much of how much is done."""

FoundT = TypeVar("FoundT")

PROJECT: Final[Project] = "evaluation"
_AT_A_TIME: Final = 8
"""Requests under way: the services share a process, and more only wait for one another."""
_BATCH_CHARS: Final = 200_000
"""Of the tools of one request: four bytes each at most, and a message may have a million."""


async def answered(caller: Caller, cases: Cases, progress: Progress) -> Answers:
    """Import the catalogue, and make each request twice: without a threshold, and with the search's own.

    Raises:
        RefusedToolError: the catalogue did not take a tool.
        NotIndexedError: search does not know all tools.
        RequestError: a service refused, or did not answer.
    """
    began = time.perf_counter()
    await _import(caller, cases.tools, progress)
    imported = time.perf_counter()
    nearest = await _asked(caller, cases.cases, "Searching", 0.0, progress)
    default = await _asked(caller, cases.cases, "Searching at the default threshold", None, progress)
    asked = time.perf_counter()
    return Answers(
        nearest=_ids(nearest),
        default=_ids(default),
        bm25=tuple(by_words(cases)),
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
        import_s=imported - began,
        ask_s=asked - imported,
    )


async def _import(caller: Caller, tools: Sequence[ToolDescription], progress: Progress) -> None:
    done, indexed = 0, True
    progress("Importing", done, len(tools))
    for batch in _batches(tools):
        reply = await caller.call(PUT_TOOLS, PutTools(project=PROJECT, tools=batch))
        refused = [result for result in reply.results if result.outcome is ToolPutOutcome.REJECTED]
        if refused:
            raise RefusedToolError(refused[0].id or "", refused[0].error or "it does not say why")
        done, indexed = done + len(batch), indexed and reply.indexed
        progress("Importing", done, len(tools))
    if not indexed:
        raise NotIndexedError


def _batches(tools: Sequence[ToolDescription]) -> Iterator[tuple[JsonValue, ...]]:
    batch: list[JsonValue] = []
    size = 0
    for tool in tools:
        chars = len(tool.model_dump_json())
        if batch and (len(batch) == MAX_TOOLS or size + chars > _BATCH_CHARS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(tool.model_dump(mode="json", exclude_unset=True))
        size += chars
    yield tuple(batch)


async def _asked(
    caller: Caller, cases: Sequence[Case], step: str, threshold: float | None, progress: Progress
) -> list[ToolsFound]:
    async def ask(row: int) -> ToolsFound:
        request = SearchTools(query=cases[row].query, limit=DEPTH, threshold=threshold, project=PROJECT)
        return await caller.call(SEARCH_TOOLS, request)

    return await side_by_side(len(cases), ask, step, progress)


async def side_by_side(
    count: int, ask: Callable[[int], Awaitable[FoundT]], step: str, progress: Progress
) -> list[FoundT]:
    """The answers of requests 0 to `count`, some of them under way at a time. Raises the first RequestError."""
    found: dict[int, FoundT] = {}
    rows = iter(range(count))

    async def work() -> None:
        for row in rows:
            found[row] = await ask(row)
            progress(step, len(found), count)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(_AT_A_TIME):
                workers.create_task(work())
    except* RequestError as refused:
        first = refused.exceptions[0]
    else:
        return [found[row] for row in range(count)]
    # Not raised above: from there Python before 3.11.4 raises it in a group of its own.
    raise first from None


def _ids(answers: Sequence[ToolsFound]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(hit.id for hit in found.results) for found in answers)


def by_words(cases: Cases) -> Iterator[tuple[str, ...]]:
    """The best tools of each request, those that share a word with it; of equals the earlier."""
    index = Bm25(
        [_text(tool) for tool in cases.tools], [build_tool_aside_text(it.provider, it.parameters) for it in cases.tools]
    )
    for case in cases.cases:
        scores = index.scores(case.query)
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        yield tuple(cases.tools[row].id for row in best.tolist() if scores[row] > 0)


def _text(tool: ToolDescription) -> str:
    return build_tool_lexical_text(tool.name, tool.description, tool.tags, tool.parameters, tool.examples)
