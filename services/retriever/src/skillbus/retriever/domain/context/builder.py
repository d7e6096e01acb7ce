"""A context for a model: what fits a query, packed into a budget, written by a template, and counted as it is."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import uuid4

from skillbus.contracts.learner.knowledge import CONTENT_CHARACTERS
from skillbus.contracts.learner.usage import AnsweredRequest, KnowledgeUse
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt, KnowledgeHit, SearchKnowledge
from skillbus.retriever.domain.context.packer import REPLY_BYTES, Blocks, Packed, Packer, most, ranked, size_of
from skillbus.retriever.domain.context.token_count import TokenCounter, Tokenizers, UpperBound
from skillbus.retriever.domain.errors import TemplateRefusedError
from skillbus.retriever.domain.knowledge.finder import KnowledgeFinder
from skillbus.retriever.domain.usage import UsageLog

_USES: Final = 100
"""Of one request, as the learner takes them."""
_TOP_K: Final = 100
"""Of a search, as its contract has it; more are asked for beside it."""

_CHARACTERS_A_TOKEN: Final = 8
"""More of a content than this for each token of the budget has no room in it, and need not be fetched."""


class ContextWriter(Protocol):
    """A template."""

    def write(self, packed: Packed) -> str | None:
        """The whole text; None of one that is too long for any budget. Raises TemplateRefusedError."""
        ...


class Templates(Protocol):
    """What writes contexts."""

    def built_in(self, use: str) -> "BuiltIn":
        """The template of a use. It writes what its blocks are."""
        ...

    def own(self, template: str, query: str, scope: str) -> AbstractContextManager[ContextWriter]:
        """A caller's template for as long as it is open. Raises TemplateRefusedError."""
        ...


class BuiltIn(Blocks, ContextWriter, Protocol):
    """A template of our own."""


@dataclass(frozen=True, slots=True)
class Written:
    """A context as it is given."""

    text: str
    tokens: int
    packed: Packed


class ContextBuilder:
    """Builds contexts."""

    def __init__(
        self, finder: KnowledgeFinder, usage: UsageLog, tokenizers: Tokenizers, templates: Templates, at_once: int
    ) -> None:
        """`at_once` contexts are packed and written at the same time, each in a thread, and as many more with templates
        of callers; others wait."""
        self._finder = finder
        self._usage = usage
        self._tokenizers = tokenizers
        self._templates = templates
        self._turn = asyncio.Semaphore(at_once)
        self._own_turn = asyncio.Semaphore(at_once)

    async def build(self, request: BuildContext) -> ContextBuilt:
        """A context within its budget; an empty one where nothing fits or nothing has room.

        Raises:
            TokenizerUnknownError, TokenizerUnusableError: Its tokens cannot be counted.
            TemplateRefusedError: The request's template cannot be used, or is over the budget without any item.
            StoreUnavailableError, RecordUnavailableError, RequestError: As of a search.
        """
        start = time.perf_counter()
        counter = await self._counter_of(request)
        found = await self._finder.find(_search_of(request), at_most=request.candidates)
        # Templates that take all the time they may have hold up each other alone.
        async with self._turn if request.template is None else self._own_turn:
            written = await asyncio.to_thread(write_context, request, found.hits, counter, self._templates)
        built = ContextBuilt(
            text=written.text,
            tokens=written.tokens,
            budget_tokens=request.budget_tokens,
            counted_by=counter.name,
            items=tuple(item for group in written.packed.groups for item in group.items),
            omitted=written.packed.omitted,
            request_id=uuid4().hex,
            degraded="lexical" if found.degraded else None,
            model=found.model,
            took_ms=round((time.perf_counter() - start) * 1000, 3),
        )
        if request.record_use and (built.items or not found.hits):
            self._usage.note(request.project, _use_of(request, built))
        return built

    async def _counter_of(self, request: BuildContext) -> TokenCounter:
        if request.tokenizer is None:
            return UpperBound()
        return await asyncio.to_thread(self._tokenizers.named, request.tokenizer)


def write_context(
    request: BuildContext, hits: Sequence[KnowledgeHit], counter: TokenCounter, templates: Templates
) -> Written:
    """The text of what was found. Takes the time of counting, and of a template. Raises TemplateRefusedError."""
    built_in = templates.built_in(request.use)
    packer = Packer(counter, built_in, request.scope)
    desk = _Desk(request.budget_tokens, hits, counter, packer)
    if request.template is None:
        written = desk.write(built_in)
        return written if written is not None and written.packed.items else Written("", 0, desk.nothing)
    with templates.own(request.template, request.query, request.scope or "") as writer:
        written = desk.write(writer)
    if written is None:
        raise TemplateRefusedError(
            f"The template is over the budget of {request.budget_tokens} tokens without any item: shorten it, "
            "or send a larger budget_tokens."
        )
    return written


@dataclass(frozen=True, slots=True)
class _Desk:
    """All that a text is made of but its template."""

    budget: int
    hits: Sequence[KnowledgeHit]
    counter: TokenCounter
    packer: Packer

    @property
    def nothing(self) -> Packed:
        """All of it left out."""
        return Packed(ids=tuple(hit.item.id for hit in ranked(self.hits)))

    def write(self, writer: ContextWriter) -> Written | None:
        """As much as has room, as the template writes it; None when not even the template itself has.

        Tokens merge where texts meet, and a template may write what it likes: so what was packed is counted again as
        it is written, and as long as it is over the budget the last are left out.
        """
        frame = self._written(writer, self.nothing)
        if frame is None:
            return None
        packed = self.packer.pack(self.hits, self.budget - frame.tokens)
        tried = {0: frame}

        def fits(count: int) -> bool:
            written = self._written(writer, packed.first(count))
            if written is not None:
                tried[count] = written
            return written is not None

        return tried[most(len(packed.items), fits)]

    def _written(self, writer: ContextWriter, packed: Packed) -> Written | None:
        """None when it is over the budget, or over what a reply carries."""
        text = writer.write(packed)
        if text is None or size_of(text) + packed.bytes > REPLY_BYTES:
            return None
        tokens = self.counter.count(text)
        return Written(text, tokens, packed) if tokens <= self.budget else None


def _search_of(request: BuildContext) -> SearchKnowledge:
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
        content_characters=min(CONTENT_CHARACTERS, _CHARACTERS_A_TOKEN * request.budget_tokens),
        record_use=False,
    )


def _use_of(request: BuildContext, built: ContextBuilt) -> AnsweredRequest:
    uses = (
        KnowledgeUse(id=item.id, project=item.project, version=item.version, position=position)
        for position, item in enumerate(built.items[:_USES], start=1)
    )
    return AnsweredRequest(
        request_id=built.request_id,
        scene=request.scene or request.use,
        query=request.query,
        applied=True,
        at=datetime.now(UTC),
        uses=tuple(uses),
    )
