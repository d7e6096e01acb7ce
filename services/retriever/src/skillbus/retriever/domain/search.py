"""A search for tools: embed the query, collect what both sides find, rank it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillbus.contracts.retriever import SearchTools, ToolHit
from skillbus.retriever.domain.ranking import Candidate, Ranked, rank
from skillbus.retriever.domain.relevance import Relevance
from skillbus.retriever.domain.tool import StoredTool, hit_of


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The index that is searched now."""

    collection: str
    fingerprint: str
    """Of the model whose vectors it holds."""
    tools: int
    """How many tools it holds, of all projects: what IDF is counted over."""


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A query as vectors."""

    dense: Sequence[float] | None
    """Of length 1; None when it cannot be had."""
    indices: Sequence[int]
    values: Sequence[float]
    terms: Sequence[str]
    """The terms at the positions of `indices`."""
    model: str | None
    """Name of the model of `dense`."""
    relevance: Relevance
    """The map of that model."""


class QueryEmbedder(Protocol):
    """Turns queries into vectors."""

    async def embed(self, query: str, fingerprint: str) -> EmbeddedQuery:
        """The query for vectors of this model. Raises RequestError when the embedder cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What candidates must be, and how many of each side."""

    project: str
    tool_types: tuple[str, ...]
    tags: tuple[str, ...]
    count: int


class ToolIndex(Protocol):
    """The index of tools. Every method raises StoreUnavailableError."""

    async def live(self) -> LiveIndex | None:
        """The index that is searched now; None while no tool was ever indexed."""
        ...

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: Wanted) -> Sequence[Candidate]:
        """What either side finds; with a dense query every candidate has a cosine."""
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


class ToolSearch:
    """Finds the tools that fit."""

    def __init__(self, embedder: QueryEmbedder, index: ToolIndex, candidates: int) -> None:
        self._embedder = embedder
        self._index = index
        self._candidates = candidates

    async def find(self, request: SearchTools) -> Found:
        """The tools that fit, best first.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder cannot be had.
        """
        live = await self._index.live()
        if live is None:
            return Found()
        query = await self._embedder.embed(request.query, live.fingerprint)
        wanted = Wanted(
            project=request.project,
            tool_types=tuple(kind.value for kind in request.tool_types),
            tags=request.tags,
            count=max(self._candidates, 2 * request.limit),
        )
        candidates = await self._index.candidates(live, query, wanted)
        ranked = rank(candidates, query.relevance, live.tools, request.threshold or 0.0)
        hits = await self._hits(live, query, ranked, request.limit)
        return Found(hits, query.model, degraded=query.dense is None)

    async def _hits(
        self, live: LiveIndex, query: EmbeddedQuery, ranked: Sequence[Ranked], limit: int
    ) -> tuple[ToolHit, ...]:
        """The first `limit` that are there and of a known kind. What they are is fetched for these alone."""
        terms = dict(zip(query.indices, query.terms, strict=True))
        hits: list[ToolHit] = []
        while ranked and len(hits) < limit:
            page, ranked = ranked[: limit - len(hits)], ranked[limit - len(hits) :]
            tools = await self._index.tools(live, [place.id for place in page])
            found = (hit_of(place, tools[place.id], terms) for place in page if place.id in tools)
            hits.extend(hit for hit in found if hit is not None)
        return tuple(hits)
