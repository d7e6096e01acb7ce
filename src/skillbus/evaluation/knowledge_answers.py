"""Answers of a running system: imports a knowledge base and sends queries over the bus."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.calibration.bm25 import Bm25
from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches
from skillbus.contracts.learner.bulk import MAX_ITEMS, PUT_KNOWLEDGE, KnowledgePutOutcome, PutKnowledge
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.retriever.knowledge_search import SEARCH_KNOWLEDGE, KnowledgeFound, SearchKnowledge
from skillbus.evaluation.answers import PROJECT, Progress, send_concurrently
from skillbus.evaluation.errors import NotIndexedError, RefusedItemError
from skillbus.evaluation.knowledge_cases import KnowledgeCases
from skillbus.evaluation.knowledge_report import KnowledgeAnswers, Scored
from skillbus.evaluation.measures import DEPTH
from skillbus.relevance.knowledge_text import build_item_aside_text, build_item_lexical_text

_ACTOR: Final = "evaluation"
_POLL_S: Final = 0.1
_STALLED_S: Final = 20.0
"""Time without progress after which indexing has failed."""


async def collect_knowledge_answers(caller: Caller, cases: KnowledgeCases, progress: Progress) -> KnowledgeAnswers:
    """Import the items, and send each query twice: without a threshold, and with the default one.

    Raises:
        RefusedItemError: an item was refused.
        NotIndexedError: not all items were indexed in time.
        RequestError: a service refused a request, or did not answer.
    """
    began = time.perf_counter()
    await _import_items(caller, cases.lines, progress)
    imported = time.perf_counter()
    nearest = await _search_all(caller, cases, "Searching", 0.0, progress)
    default = await _search_all(caller, cases, "Searching at the default threshold", None, progress)
    asked = time.perf_counter()
    return KnowledgeAnswers(
        nearest=[[Scored(hit.item.external_id or "", hit.score) for hit in found.results] for found in nearest],
        default=[[hit.item.external_id or "" for hit in found.results] for found in default],
        bm25=list(_rank_by_words(cases)),
        degraded=sum(found.degraded is not None for found in nearest),
        model=next((found.model for found in nearest if found.model), None),
        import_s=imported - began,
        ask_s=asked - imported,
    )


async def _search_all(
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
    for batch in _cut_batches(lines):
        reply = await caller.call(PUT_KNOWLEDGE, PutKnowledge(project=PROJECT, items=batch, actor=_ACTOR))
        if refused := [result for result in reply.results if result.outcome is KnowledgePutOutcome.REJECTED]:
            raise RefusedItemError(refused[0].external_id or "", refused[0].error or "it does not say why")
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
            raise NotIndexedError
        await asyncio.sleep(_POLL_S if left else 0)


def _cut_batches(lines: Sequence[JsonValue]) -> Iterator[tuple[JsonValue, ...]]:
    for rows in cut_batches((len(to_json(line)) for line in lines), max_items=MAX_ITEMS):
        yield tuple(lines[rows])


def _rank_by_words(cases: KnowledgeCases) -> Iterator[tuple[str, ...]]:
    """Yield the best items of each query by BM25 over the texts of a search, without translations and scopes."""
    docs = cases.docs
    index = Bm25(
        [build_item_lexical_text(it.title, it.content, it.tags) for it in docs],
        [build_item_aside_text(it.scope) for it in docs],
    )
    for case in cases.cases:
        scores = index.compute_scores(case.query)
        best = (-scores).argsort(kind="stable")[:DEPTH]
        yield tuple(docs[row].id for row in best.tolist() if scores[row] > 0)
