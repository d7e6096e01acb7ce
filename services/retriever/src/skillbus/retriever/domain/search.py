"""A search for tools: embed the query, collect what both sides find, rank it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillbus.contracts.retriever import SearchTools, ToolHit
from skillbus.retriever.domain.ranking import Candidate, Cut, rank, with_terms
from skillbus.retriever.domain.relevance import relevance_of


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

    async def terms(self, live: LiveIndex, project: str, ids: Sequence[str]) -> Mapping[str, frozenset[int]]:
        """Indices of the terms of each tool's text, by the tool's id."""
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
        cut = Cut(request.limit, request.threshold)
        hits = rank(candidates, relevance_of(query.model), live.tools, cut)
        degraded = query.dense is None
        return Found(await self._explained(live, query, request.project, hits), query.model, degraded)

    async def _explained(
        self, live: LiveIndex, query: EmbeddedQuery, project: str, hits: tuple[ToolHit, ...]
    ) -> tuple[ToolHit, ...]:
        """The hits, each with the terms of the query that it holds."""
        by_words = [hit.id for hit in hits if any(reason.side == "lexical" for reason in hit.reasons)]
        if not by_words:
            return hits
        held = await self._index.terms(live, project, by_words)
        terms = {
            tool: tuple(term for at, term in zip(query.indices, query.terms, strict=True) if at in indices)
            for tool, indices in held.items()
        }
        return tuple(with_terms(hit, terms.get(hit.id, ())) for hit in hits)
