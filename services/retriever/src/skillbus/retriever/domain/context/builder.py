"""Contexts for a model: search, pack the hits into a token budget, and write them with a template."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.learner.knowledge import CONTENT_CHARACTERS
from skillbus.contracts.learner.usage import AnsweredRequest
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt, KnowledgeHit, SearchKnowledge
from skillbus.retriever.domain.context.packer import (
    ContextPacker,
    PackedItems,
    count_json_bytes,
    describe_omitted,
    find_largest_fit,
    order_hits,
)
from skillbus.retriever.domain.context.template import render_context
from skillbus.retriever.domain.context.token_count import TokenCounter, Tokenizers, UpperBoundCounter
from skillbus.retriever.domain.explanation import StageTimer
from skillbus.retriever.domain.knowledge.ports import KnowledgeFinder
from skillbus.retriever.domain.usage import UsageLog, list_uses

_USES: Final = 100
"""Uses that the learner takes of one request."""
_TOP_K: Final = 100
"""The contract's limit of `top_k`. `at_most` asks for more."""
_CHARACTERS_A_TOKEN: Final = 8
"""No more than this many characters of a content per token of the budget are fetched: more would never fit."""
_LEAST_CHARACTERS: Final = 4_000
"""Characters that are fetched for a small budget too, to say what the first item needs."""


@dataclass(frozen=True, slots=True)
class WrittenContext:
    """Text of a context, its size in tokens, and its items."""

    text: str
    tokens: int
    packed: PackedItems
    first_item_tokens: int | None = None
    """Budget that the first item needs to be whole. None if it is whole."""


class ContextBuilder:
    def __init__(self, finder: KnowledgeFinder, usage: UsageLog, tokenizers: Tokenizers, at_once: int) -> None:
        """`at_once` contexts are packed and written at the same time, each in a thread; others wait."""
        self._finder = finder
        self._usage = usage
        self._tokenizers = tokenizers
        self._permits = asyncio.Semaphore(at_once)

    async def build_context(self, request: BuildContext) -> ContextBuilt:
        """Build a context within its budget: an empty one if nothing was found or nothing fits.

        Raises:
            TokenizerUnknownError, TokenizerUnusableError: Its tokens cannot be counted.
            StoreUnavailableError, RecordUnavailableError, RequestError: As of a search.
        """
        timer = StageTimer()
        counter: TokenCounter = UpperBoundCounter()
        if request.tokenizer is not None:
            counter = await asyncio.to_thread(self._tokenizers.load_counter, request.tokenizer)
        found = await self._finder.search_knowledge(_make_search(request), at_most=request.candidates)
        async with self._permits:
            written = await asyncio.to_thread(write_context, request, found.hits, counter)
        built = ContextBuilt(
            text=written.text,
            tokens=written.tokens,
            budget_tokens=request.budget_tokens,
            counted_by=counter.name,
            items=written.packed.items,
            omitted=describe_omitted(written.packed, found.hits),
            first_item_tokens=written.first_item_tokens,
            index_behind=found.index_behind,
            request_id=uuid4().hex,
            degraded="lexical" if found.degraded else None,
            model=found.model,
            took_ms=timer.measure_ms(),
        )
        if request.record_use and (built.items or not found.hits):
            answered = AnsweredRequest(
                request_id=built.request_id,
                scene=request.scene or request.use,
                query=request.query,
                applied=True,
                at=datetime.now(UTC),
                uses=list_uses(built.items[:_USES]),
            )
            self._usage.note(request.project, answered)
        return built


def write_context(request: BuildContext, hits: Sequence[KnowledgeHit], counter: TokenCounter) -> WrittenContext:
    """Write as many of the hits as fit; an empty text if not even the beginning of the first one does.

    Tokens merge where texts meet, so the whole text is counted, and the last items are dropped while it is over budget.
    """
    ordered = order_hits(hits)
    nothing = PackedItems(ids=tuple(hit.item.id for hit in ordered))
    frame = counter.count(render_context(request.use, (), len(ordered)))
    packer = ContextPacker(counter, request.scope, request.budget_tokens - frame)
    packed = packer.pack_hits(ordered)
    if ordered and not packed.items:
        packed = packer.pack_beginning(ordered)
    written: dict[int, WrittenContext] = {0: WrittenContext("", 0, nothing)}

    def fits(count: int) -> bool:
        some = replace(packed, items=packed.items[:count])  # the rest counts as over budget
        omitted = some.omitted
        text = render_context(request.use, some.items, omitted.over_budget + omitted.alike)
        if count_json_bytes(text) + some.bytes > MESSAGE_BYTES:
            return False
        tokens = counter.count(text)
        if tokens > request.budget_tokens:
            return False
        written[count] = WrittenContext(text, tokens, some)
        return True

    best = written[find_largest_fit(len(packed.items), fits)]
    if ordered and not any(item.id == ordered[0].item.id and not item.cut for item in best.packed.items):
        best = replace(best, first_item_tokens=frame + packer.count_item(ordered[0]).tokens)
    return best


def _make_search(request: BuildContext) -> SearchKnowledge:
    return SearchKnowledge(
        project=request.project,
        inherit=request.inherit,
        types=request.types,
        tags=request.tags,
        all_tags=request.all_tags,
        sources=request.sources,
        scope=request.scope,
        at=request.at,
        query=request.query,
        top_k=min(request.candidates, _TOP_K),
        threshold=request.threshold,
        content_characters=min(CONTENT_CHARACTERS, max(_LEAST_CHARACTERS, _CHARACTERS_A_TOKEN * request.budget_tokens)),
        record_use=False,
    )
