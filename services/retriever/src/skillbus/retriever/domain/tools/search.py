"""A search for tools: embed the request, collect what both sides find, rank it, and say what fits."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolSearchExplanation
from skillbus.relevance.score import compute_probability
from skillbus.relevance.sentences import split_sentences
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery, QueryEmbedder
from skillbus.retriever.domain.stages import Stages
from skillbus.retriever.domain.threshold import least_evidence
from skillbus.retriever.domain.tools.hit import StoredTool, hit_of
from skillbus.retriever.domain.tools.ranking import POOL, Candidate, Ranked, rank, spread
from skillbus.retriever.domain.tools.tool_type import tool_type_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """What candidates must be, and how many of each side."""

    project: str
    tool_types: tuple[str, ...]
    tags: tuple[str, ...]
    sources: tuple[str, ...]
    count: int


class ToolIndex(Protocol):
    """The index of tools. Every method raises StoreUnavailableError."""

    async def live(self) -> LiveIndex | None:
        """The index that is searched now; None while no tool was ever indexed."""
        ...

    async def size(self, live: LiveIndex, project: str) -> int:
        """How many tools a project has there; may be some seconds old."""
        ...

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        """What either side finds; with a dense query each has a cosine, the best of request and parts, unless the index
        has no dense vector of it."""
        ...

    async def tools(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, StoredTool]:
        """What is at these points; those that are gone meanwhile are left out."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search."""

    hits: tuple[ToolHit, ...] = ()
    model: str | None = None
    degraded: bool = field(default=False)
    """Whether the lexical side answered alone."""
    split: tuple[str, ...] = ()
    explanation: ToolSearchExplanation | None = None


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The best of what was found, as far as it is there and of a known kind."""

    ranked: tuple[Ranked, ...]
    tools: Mapping[str, StoredTool]
    kinds: Mapping[str, ToolType]

    def fill(self, request: SearchTools) -> bool:
        """Whether they are as many as the request may have."""
        counts = Counter(self.kinds.values())
        return sum(min(count, request.quotas.get(kind, count)) for kind, count in counts.items()) >= request.limit


class ToolSearch:
    """Finds the tools that fit."""

    def __init__(self, embedder: QueryEmbedder, index: ToolIndex, candidates: int, fits: float) -> None:
        """`candidates` of each side, at least. Below a score of `fits` the best of many is taken not to fit."""
        self._embedder = embedder
        self._index = index
        self._candidates = candidates
        self._fits = fits

    async def find(self, request: SearchTools) -> Found:
        """The tools that fit, best first.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder cannot be had.
        """
        stages = Stages()
        live = await self._index.live()
        if live is None:
            return Found()
        parts = () if request.split is False else split_sentences(request.query)
        query = await self._embedder.embed(request.query, parts, live.fingerprint)
        stages.end("embed", 0)
        candidates = await self._candidates_of(live, query, request)
        stages.end("candidates", len(candidates))
        ranked = rank(candidates, query.relevance, live.items)
        stages.end("rank", len(ranked))
        least = least_evidence(self._fits, await self._index.size(live, request.project))
        fitting = _fitting(ranked, request.threshold, least)
        fetched = await self._fetch(live, fitting, request)
        hits = tuple(_hits(fetched, query, request))
        stages.end("fetch", len(hits))
        explanation = None
        if request.explain:
            explanation = ToolSearchExplanation(
                stages=stages.told(),
                threshold=compute_probability(least) if request.threshold is None else request.threshold,
                below_threshold=len(ranked) - len(fitting),
                best_score=ranked[0].score if ranked else None,
                terms=tuple(query.terms),
            )
        return Found(hits, query.model, query.dense is None, parts if query.parts else (), explanation)

    async def _candidates_of(self, live: LiveIndex, query: EmbeddedQuery, request: SearchTools) -> Sequence[Candidate]:
        """Of all kinds together, or so many of each kind where there are quotas, lest one kind take all places."""
        wanted = Wanted(
            project=request.project,
            tool_types=tuple(kind.value for kind in request.tool_types),
            tags=request.tags,
            sources=request.sources,
            count=max(self._candidates, 2 * request.limit),
        )
        if not request.quotas:
            return await self._index.candidates(live, query, wanted)
        kinds = [kind for kind in request.tool_types or tuple(ToolType) if request.quotas.get(kind) != 0]
        found = [self._index.candidates(live, query, replace(wanted, tool_types=(kind.value,))) for kind in kinds]
        return [candidate for some in await asyncio.gather(*found) for candidate in some]

    async def _fetch(self, live: LiveIndex, ranked: tuple[Ranked, ...], request: SearchTools) -> _Fetched:
        """The first `POOL`, or as many as are asked for; more only where some of these cannot be hits."""
        fetched = _Fetched((), {}, {})
        page = max(POOL, request.limit)
        for at in range(0, len(ranked), page):
            some = ranked[at : at + page]
            tools = await self._index.tools(live, [it.id for it in some])
            kinds = {point: kind for point, tool in tools.items() if (kind := tool_type_of(tool.id, tool.tool_type))}
            usable = tuple(it for it in some if it.id in kinds)
            fetched = _Fetched(fetched.ranked + usable, {**fetched.tools, **tools}, {**fetched.kinds, **kinds})
            if fetched.fill(request):
                break
        return fetched


def _fitting(ranked: tuple[Ranked, ...], threshold: float | None, least: float) -> tuple[Ranked, ...]:
    """All of them if the best is likely to fit; those above the threshold if the request has one.

    Asking the best hit alone loses a third of the recall that filtering each hit does, at the same share of requests
    answered with nothing. Without a dense vector whatever shares a word comes back, as degraded.
    """
    if threshold is not None:
        return tuple(it for it in ranked if it.score >= threshold)
    fits = bool(ranked) and (ranked[0].cosine is None or ranked[0].evidence >= least)
    return ranked if fits else ()


def _hits(fetched: _Fetched, query: EmbeddedQuery, request: SearchTools) -> Iterator[ToolHit]:
    """The first `limit`, spread, within the quotas and the threshold."""
    terms = dict(zip(query.indices, query.terms, strict=True))
    weights = {it.id: fetched.tools[it.id].weights for it in fetched.ranked}
    given: dict[str, ToolType] = {}
    for it in spread(fetched.ranked, weights):
        if len(given) == request.limit or it.score < (request.threshold or 0.0):
            return
        kind = fetched.kinds[it.id]
        if kind in request.quotas and list(given.values()).count(kind) >= request.quotas[kind]:
            continue
        repeats = fetched.tools[it.repeats].id if it.repeats in given else None
        given[it.id] = kind
        yield hit_of(it, fetched.tools[it.id], kind, terms, repeats)
