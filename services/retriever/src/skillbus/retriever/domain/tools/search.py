"""Tool search: embed the query, collect the candidates of both sides, rank them, and return those that fit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.search_explanation import DropCause, DroppedHit
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolSearchExplanation, ToolsFound
from skillbus.relevance.score import compute_least_evidence, compute_probability
from skillbus.relevance.sentences import split_sentences
from skillbus.retriever.domain.explanation import StageTimer, group_drops
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex, QueryEmbedder, keep_side
from skillbus.retriever.domain.tools.answer_cache import ToolAnswerCache, ToolAnswerKey
from skillbus.retriever.domain.tools.explanation import ToolDrops, describe_drops, list_shown, split_score
from skillbus.retriever.domain.tools.hit import IndexedTool, make_tool_hit
from skillbus.retriever.domain.tools.ranking import POOL, RankedTool, diversify, rank_candidates

CANDIDATES_A_HIT: Final = 3
"""Candidates of each side for each hit that is asked for. A tool that is middling on both sides can be among the best
ten, though neither side has it among its first twenty: with 2 a chat is shown a right tool for 75.1 % of the English
requests of the dev tools, with 3 for 75.5 %, with 4 for 75.6 %. Each step costs half a millisecond at ten hits."""
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

    def get_revision(self, live: LiveIndex) -> int | None:
        """Return a number that every write to the index changes; None where others may write unnoticed."""
        ...

    async def find_live_index(self) -> LiveIndex | None:
        """Return the index that is searched now; None while no tool was ever indexed."""
        ...

    async def count_project(self, live: LiveIndex, project: str) -> int:
        """Return the number of tools of a project; it may be some seconds old."""
        ...

    async def count_matching(self, live: LiveIndex, wanted: WantedTools) -> int:
        """Return the number of tools that pass the filters."""
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
    asked: frozenset[str] = frozenset()
    """Points that were asked for, also those that the index has no more."""

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
    answers: ToolAnswerCache = field(default_factory=ToolAnswerCache)

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
        embedded = await self.embedder.embed_query(request.query, parts, live.fingerprint)
        query = keep_side(embedded, request.side)
        timer.end_stage("embed", 0)
        indexed = await self.index.count_project(live, request.project)
        key = ToolAnswerKey.make(request, live, self.index.get_revision(live), query, indexed)
        if (known := self.answers.get_answer(key)) is not None:
            return known.model_copy(update={"took_ms": timer.measure_ms()})
        wanted = self._make_wanted(request)
        if request.explain:
            timer.end_stage("filter", await self.index.count_matching(live, wanted))
        candidates = await self.index.find_candidates(live, query, wanted)
        timer.end_stage("candidates", len(candidates))
        ranked = rank_candidates(candidates, query.relevance, live.items)
        timer.end_stage("rank", len(ranked))
        least = compute_least_evidence(self.fits, indexed)
        fitting = _select_fitting(ranked, request.threshold, least)
        loaded = await self._load(live, fitting, request)
        found = tuple(_select_tools(loaded, request))
        hits = tuple(_make_hits(found, loaded, query, live, explain=request.explain))
        timer.end_stage("fetch", len(hits))
        explanation = None
        if request.explain:
            explanation = ToolSearchExplanation(
                stages=timer.list_stages(),
                indexed=indexed,
                threshold=compute_probability(least) if request.threshold is None else request.threshold,
                below_threshold=len(ranked) - len(fitting),
                best_score=ranked[0].score if ranked else None,
                terms=tuple(query.terms),
                dropped=group_drops(await self._describe_drops(live, request, ranked, fitting, loaded, found)),
            )
        answer = ToolsFound(
            results=hits,
            degraded="lexical" if embedded.dense is None else None,
            model=query.model,
            split=parts if query.parts else (),
            explanation=explanation,
            took_ms=timer.measure_ms(),
        )
        self.answers.keep_answer(key, answer)
        return answer

    async def _describe_drops(
        self,
        live: LiveIndex,
        request: SearchTools,
        ranked: tuple[RankedTool, ...],
        fitting: tuple[RankedTool, ...],
        loaded: _Loaded,
        found: tuple[RankedTool, ...],
    ) -> dict[DropCause, list[DroppedHit]]:
        """Return the candidates that are no hits, by cause, with the names of those that a reply shows."""
        fit = frozenset(it.id for it in fitting)
        drops = ToolDrops(request, fit, loaded.asked, loaded.types, [it.id for it in found]).group(ranked)
        unknown = [point for point in list_shown(drops) if point not in loaded.asked]
        tools = {**loaded.tools, **await self.index.load_tools(live, unknown, functions=False)}
        return describe_drops(drops, {point: (tool.id, tool.name) for point, tool in tools.items()})

    def _make_wanted(self, request: SearchTools) -> WantedTools:
        types = request.tool_types
        if request.quotas:
            types = tuple(kind for kind in types or tuple(ToolType) if request.quotas.get(kind) != 0)
        return WantedTools(
            project=request.project,
            tool_types=types,
            tags=request.tags,
            sources=request.sources,
            count=max(self.candidates, CANDIDATES_A_HIT * request.limit),
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
            asked = loaded.asked | {it.id for it in some}
            loaded = _Loaded(loaded.ranked + usable, {**loaded.tools, **tools}, {**loaded.types, **types}, asked)
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


def _select_tools(loaded: _Loaded, request: SearchTools) -> Iterator[RankedTool]:
    """Yield the first `limit` tools, diversified, within the quotas and the threshold."""
    weights = {it.id: loaded.tools[it.id].weights for it in loaded.ranked}
    given = list[ToolType]()
    for it in diversify(loaded.ranked, weights):
        if len(given) == request.limit or it.score < (request.threshold or 0.0):
            return
        kind = loaded.types[it.id]
        if kind in request.quotas and given.count(kind) >= request.quotas[kind]:
            continue
        given.append(kind)
        yield it


def _make_hits(
    found: tuple[RankedTool, ...], loaded: _Loaded, query: EmbeddedQuery, live: LiveIndex, *, explain: bool
) -> Iterator[ToolHit]:
    """Yield the hits, with their functions while the reply has room for them."""
    terms = dict(zip(query.indices, query.terms, strict=True))
    given, room = set[str](), _FUNCTIONS_BYTES
    for it in found:
        repeats = loaded.tools[it.repeats].id if it.repeats in given else None
        given.add(it.id)
        tool = loaded.tools[it.id]
        size = 0 if tool.functions is None else len(tool.functions.encode())
        if size > room:
            tool, size = tool._replace(functions=None), 0
        room -= size
        parts = split_score(it, query.relevance, live.items) if explain else None
        yield make_tool_hit(it, tool, loaded.types[it.id], terms, repeats, parts)
