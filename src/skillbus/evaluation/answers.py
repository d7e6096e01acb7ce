"""Answers of a running system: imports a catalogue or a knowledge base and sends requests over the bus."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.calibration.bm25 import Bm25
from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches, measure_json
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import MAX_TOOLS, PUT_TOOLS, PutTools, ToolDescription, ToolPutOutcome
from skillbus.contracts.learner.bulk import MAX_ITEMS, PUT_KNOWLEDGE, KnowledgePutOutcome, PutKnowledge
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, KnowledgeFound, SearchKnowledge
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.evaluation.cases import Case, Cases, EvaluationError
from skillbus.evaluation.knowledge_cases import KnowledgeCase, KnowledgeCases
from skillbus.evaluation.knowledge_report import KnowledgeAnswers, Scored
from skillbus.evaluation.measures import DEPTH
from skillbus.evaluation.report import Answers
from skillbus.relevance.knowledge_text import build_item_aside_text, build_item_lexical_text
from skillbus.relevance.tool_text import build_tool_aside_text, build_tool_lexical_text

Progress = Callable[[str, int, int], None]
"""Callback with the current step, and how much of how much is done."""

FoundT = TypeVar("FoundT")

PROJECT: Final[Project] = "evaluation"
_AT_A_TIME: Final = 8
"""Concurrent requests. The services share a process, and more would only wait for each other."""
_ACTOR: Final = "evaluation"
NOT_INDEXED: Final = "not everything was indexed: the embedding model gives no vectors; choose another --model"
_POLL_S: Final = 0.1
_STALLED_S: Final = 20.0
"""Time without progress after which indexing has failed."""


async def collect_answers(caller: Caller, cases: Cases, progress: Progress) -> Answers:
    """Import the catalogue, and send each request twice: without a threshold, and with the default one.

    Raises:
        EvaluationError: the catalogue refused a tool, or not all tools are indexed.
        RequestError: a service refused a request, or did not answer.
    """
    began = time.perf_counter()
    await import_tools(caller, cases.tools, progress)
    imported = time.perf_counter()
    nearest = await _search_tools(caller, cases.cases, "Searching", 0.0, progress)
    default = await _search_tools(caller, cases.cases, "Searching at the default threshold", None, progress)
    asked = time.perf_counter()
    return Answers(
        nearest=[[hit.id for hit in found.results] for found in nearest],
        default=[[hit.id for hit in found.results] for found in default],
        bm25=list(rank_by_words(cases)),
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
        import_s=imported - began,
        ask_s=asked - imported,
    )


async def import_tools(
    caller: Caller, tools: Sequence[ToolDescription], progress: Progress, source: str | None = None
) -> None:
    """Import a catalogue, with `source` in place of the tools' own. Raises as `collect_answers`."""
    done, indexed = 0, True
    progress("Importing", done, len(tools))
    for rows in cut_batches((measure_json(tool) for tool in tools), max_items=MAX_TOOLS):
        batch = tuple(tool.model_dump(mode="json", exclude_unset=True) for tool in tools[rows])
        reply = await caller.call(PUT_TOOLS, PutTools(project=PROJECT, tools=batch, source=source))
        refused = [result for result in reply.results if result.outcome is ToolPutOutcome.REJECTED]
        if refused:
            raise build_refusal("catalogue", "tool", refused[0].id, refused[0].error)
        done, indexed = done + len(batch), indexed and reply.indexed
        progress("Importing", done, len(tools))
    if not indexed:
        raise EvaluationError(NOT_INDEXED)


async def _search_tools(
    caller: Caller, cases: Sequence[Case], step: str, threshold: float | None, progress: Progress
) -> list[ToolsFound]:
    async def search(row: int) -> ToolsFound:
        request = SearchTools(query=cases[row].query, limit=DEPTH, threshold=threshold, project=PROJECT)
        return await caller.call(SEARCH_TOOLS, request)

    return await send_concurrently(len(cases), search, step, progress)


async def collect_knowledge_answers(caller: Caller, cases: KnowledgeCases, progress: Progress) -> KnowledgeAnswers:
    """Import the items, and send each query twice: without a threshold, and with the default one.

    Raises:
        EvaluationError: the knowledge base refused an item, or not all items were indexed in time.
        RequestError: a service refused a request, or did not answer.
    """
    began = time.perf_counter()
    await _import_items(caller, cases.lines, progress)
    imported = time.perf_counter()
    nearest = await _search_knowledge(caller, cases, "Searching", 0.0, progress)
    default = await _search_knowledge(caller, cases, "Searching at the default threshold", None, progress)
    asked = time.perf_counter()
    return KnowledgeAnswers(
        nearest=[[Scored(hit.item.external_id or "", hit.score) for hit in found.results] for found in nearest],
        default=[[hit.item.external_id or "" for hit in found.results] for found in default],
        bm25=list(_rank_items_by_words(cases)),
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
        import_s=imported - began,
        ask_s=asked - imported,
    )


async def _search_knowledge(
    caller: Caller, cases: KnowledgeCases, step: str, threshold: float | None, progress: Progress
) -> list[KnowledgeFound]:
    async def search(row: int) -> KnowledgeFound:
        case = cases.cases[row]
        request = SearchKnowledge(
            query=case.query,
            scope=case.scope,
            top_k=DEPTH,
            threshold=threshold,
            project=PROJECT,
            content_characters=0,
            record_use=False,
        )
        return await caller.call(SEARCH_KNOWLEDGE, request)

    return await send_concurrently(len(cases.cases), search, step, progress)


async def _import_items(caller: Caller, lines: Sequence[JsonValue], progress: Progress) -> None:
    done = 0
    progress("Importing", done, len(lines))
    for rows in cut_batches((len(to_json(line)) for line in lines), max_items=MAX_ITEMS):
        batch = tuple(lines[rows])
        reply = await caller.call(PUT_KNOWLEDGE, PutKnowledge(project=PROJECT, items=batch, actor=_ACTOR))
        if refused := [result for result in reply.results if result.outcome is KnowledgePutOutcome.REJECTED]:
            raise build_refusal("knowledge base", "item", refused[0].external_id, refused[0].error)
        done += len(batch)
        progress("Importing", done, len(lines))
    await _wait_until_indexed(caller, len(lines), progress)


async def _wait_until_indexed(caller: Caller, count: int, progress: Progress) -> None:
    """Wait for the index while it makes progress."""
    left, until = count, time.monotonic() + _STALLED_S
    while left:
        stats = await caller.call(GET_KNOWLEDGE_STATS, GetKnowledgeStats(project=PROJECT, limit=0))
        if stats.unindexed < left:
            left, until = stats.unindexed, time.monotonic() + _STALLED_S
        progress("Indexing", count - left, count)
        if left and time.monotonic() > until:
            raise EvaluationError(NOT_INDEXED)
        await asyncio.sleep(_POLL_S if left else 0)


def build_refusal(base: str, noun: str, name: str | None, reason: str | None) -> EvaluationError:
    problem = reason or "it does not say why"
    return EvaluationError(f"the {base} refused the {noun} {name or ''!r}: {problem}; correct its line, or delete it")


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


def rank_by_words(cases: Cases) -> Iterator[tuple[str, ...]]:
    """Yield the best tools of each request by BM25. Tools without a common word are left out; ties keep their order."""
    index = Bm25(
        [build_tool_lexical_text(it.name, it.description, it.tags, it.parameters, it.examples) for it in cases.tools],
        [build_tool_aside_text(it.provider, it.parameters) for it in cases.tools],
    )
    return _rank_ids(index, [tool.id for tool in cases.tools], cases.cases)


def _rank_items_by_words(cases: KnowledgeCases) -> Iterator[tuple[str, ...]]:
    """Yield the best items of each query by BM25 over the texts of a search, without translations and scopes."""
    index = Bm25(
        [build_item_lexical_text(it.title, it.content, it.tags) for it in cases.docs],
        [build_item_aside_text(it.scope) for it in cases.docs],
    )
    return _rank_ids(index, [doc.id for doc in cases.docs], cases.cases)


def _rank_ids(index: Bm25, ids: Sequence[str], cases: Iterable[Case | KnowledgeCase]) -> Iterator[tuple[str, ...]]:
    for case in cases:
        scores = index.compute_scores(case.query)
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        yield tuple(ids[row] for row in best.tolist() if scores[row] > 0)
