"""Tool search: embed the query, collect the candidates of both sides, rank them, and return those that fit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolSearchExplanation, ToolsFound
from skillbus.relevance.score import compute_least_evidence, compute_probability
from skillbus.relevance.sentences import split_sentences
from skillbus.retriever.domain.explanation import StageTimer
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex, QueryEmbedder
from skillbus.retriever.domain.tools.hit import IndexedTool, make_tool_hit
from skillbus.retriever.domain.tools.ranking import POOL, RankedTool, diversify, rank_candidates

_FUNCTIONS_BYTES: Final = 256 * 1024
"""Most bytes of functions in one reply. A message of the bus has 1 MiB, and the hits need their part of it."""


@dataclass(frozen=True, slots=True)
class WantedTools:
    """Conditions for candidates, and their number."""

    project: str
    tool_types: tuple[ToolType, ...]
    tags: tuple[str, ...]
    sources: tuple[str, ...]
    count: int
    """Candidates of each side."""
    each_type: bool = False
    """True: `count` candidates of each of the types, so that no type takes all places."""


class ToolIndex(Protocol):
    """The index of tools. Every method raises StoreUnavailableError."""

    async def find_live_index(self) -> LiveIndex | None:
        """Return the index that is searched now; None while no tool was ever indexed."""
        ...

    async def count_project(self, live: LiveIndex, project: str) -> int:
        """Return the number of tools of a project; it may be some seconds old."""
        ...

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedTools
    ) -> Sequence[IndexCandidate]:
        """Return the nearest points of either side. With a dense query each has the best cosine of query and parts,
        unless the index has no dense vector of it."""
        ...

    async def load_tools(self, live: LiveIndex, points: Sequence[str], *, functions: bool) -> Mapping[str, IndexedTool]:
        """Return the tools at these points, with their functions on request; points deleted since are left out."""
        ...


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The best candidates that the index still has, of known types."""

    ranked: tuple[RankedTool, ...]
    tools: Mapping[str, IndexedTool]
    types: Mapping[str, ToolType]

    def fill(self, request: SearchTools) -> bool:
        """Return whether they are as many as the request may have."""
        counts = Counter(self.types.values())
        return sum(min(count, request.quotas.get(kind, count)) for kind, count in counts.items()) >= request.limit


@dataclass(frozen=True, slots=True)
class ToolSearch:
    embedder: QueryEmbedder
    index: ToolIndex
    candidates: int
    """Candidates of each side, at least."""
    fits: float
    """Score that the best of many tools must reach, or nothing is found."""

    async def search_tools(self, request: SearchTools) -> ToolsFound:
        """Return the tools that fit, best first.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder does not answer.
        """
        timer = StageTimer()
        live = await self.index.find_live_index()
        if live is None:
            return ToolsFound(results=(), took_ms=timer.measure_ms())
        parts = () if request.split is False else split_sentences(request.query)
        query = await self.embedder.embed_query(request.query, parts, live.fingerprint)
        timer.end_stage("embed", 0)
        candidates = await self.index.find_candidates(live, query, self._make_wanted(request))
        timer.end_stage("candidates", len(candidates))
        ranked = rank_candidates(candidates, query.relevance, live.items)
        timer.end_stage("rank", len(ranked))
        least = compute_least_evidence(self.fits, await self.index.count_project(live, request.project))
        fitting = _select_fitting(ranked, request.threshold, least)
        loaded = await self._load(live, fitting, request)
        hits = tuple(_select_hits(loaded, query, request))
        timer.end_stage("fetch", len(hits))
        explanation = None
        if request.explain:
            explanation = ToolSearchExplanation(
                stages=timer.list_stages(),
                threshold=compute_probability(least) if request.threshold is None else request.threshold,
                below_threshold=len(ranked) - len(fitting),
                best_score=ranked[0].score if ranked else None,
                terms=tuple(query.terms),
            )
        return ToolsFound(
            results=hits,
            degraded="lexical" if query.dense is None else None,
            model=query.model,
            split=parts if query.parts else (),
            explanation=explanation,
            took_ms=timer.measure_ms(),
        )

    def _make_wanted(self, request: SearchTools) -> WantedTools:
        types = request.tool_types
        if request.quotas:
            types = tuple(kind for kind in types or tuple(ToolType) if request.quotas.get(kind) != 0)
        return WantedTools(
            project=request.project,
            tool_types=types,
            tags=request.tags,
            sources=request.sources,
            count=max(self.candidates, 2 * request.limit),
            each_type=bool(request.quotas),
        )

    async def _load(self, live: LiveIndex, ranked: tuple[RankedTool, ...], request: SearchTools) -> _Loaded:
        """Load the first `POOL` candidates, or as many as requested; more only where some of these cannot be hits."""
        loaded = _Loaded((), {}, {})
        page = max(POOL, request.limit)
        for at in range(0, len(ranked), page):
            some = ranked[at : at + page]
            tools = await self.index.load_tools(live, [it.id for it in some], functions=request.functions)
            types = {point: kind for point, tool in tools.items() if (kind := tool.read_type())}
            usable = tuple(it for it in some if it.id in types)
            loaded = _Loaded(loaded.ranked + usable, {**loaded.tools, **tools}, {**loaded.types, **types})
            if loaded.fill(request):
                break
        return loaded


def _select_fitting(ranked: tuple[RankedTool, ...], threshold: float | None, least: float) -> tuple[RankedTool, ...]:
    """Return the tools above the request's threshold; without one, all tools if the best is likely to fit.

    Testing the best hit alone loses a third of the recall that testing every hit loses, at the same share of requests
    answered with nothing. Without a dense vector every tool that shares a word is returned, as degraded.
    """
    if threshold is not None:
        return tuple(it for it in ranked if it.score >= threshold)
    fits = bool(ranked) and (ranked[0].cosine is None or ranked[0].evidence >= least)
    return ranked if fits else ()


def _select_hits(loaded: _Loaded, query: EmbeddedQuery, request: SearchTools) -> Iterator[ToolHit]:
    """Yield the first `limit` tools, diversified, within the quotas and the threshold."""
    terms = dict(zip(query.indices, query.terms, strict=True))
    weights = {it.id: loaded.tools[it.id].weights for it in loaded.ranked}
    given: dict[str, ToolType] = {}
    room = _FUNCTIONS_BYTES
    for it in diversify(loaded.ranked, weights):
        if len(given) == request.limit or it.score < (request.threshold or 0.0):
            return
        kind = loaded.types[it.id]
        if kind in request.quotas and list(given.values()).count(kind) >= request.quotas[kind]:
            continue
        repeats = loaded.tools[it.repeats].id if it.repeats in given else None
        given[it.id] = kind
        tool = loaded.tools[it.id]
        size = 0 if tool.functions is None else len(tool.functions.encode())
        if size > room:
            tool, size = tool._replace(functions=None), 0
        room -= size
        yield make_tool_hit(it, tool, kind, terms, repeats)
