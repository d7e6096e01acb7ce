"""The index that a search reads, the query in its vectors, and the candidates that both sides return."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skillbus.contracts.retriever.search_explanation import Side
from skillbus.relevance.score import Relevance


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The collection that is searched now."""

    collection: str
    fingerprint: str
    """Fingerprint of the model of its vectors."""
    items: int
    """Number of its points, of all projects: IDF is counted over them."""


@dataclass(frozen=True, slots=True)
class IndexCandidate:
    """A point that one side of a search found, or both."""

    id: str
    cosine: float | None = None
    """Highest cosine of the query or one of its sentences, also of a point that only the lexical side found; None
    without a dense vector of the query or of the point."""
    bm25: float | None = None
    """None if the point shares no word with the query."""


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A query as vectors."""

    dense: Sequence[float] | None
    """Length 1; None if the model is not available."""
    indices: Sequence[int]
    values: Sequence[float]
    terms: Sequence[str]
    """The terms at the positions of `indices`."""
    model: str | None
    """Name of the model of `dense`."""
    relevance: Relevance
    """The map of that model."""
    parts: tuple[Sequence[float], ...] = ()
    """Dense vectors of its sentences; empty if the model is not available."""
    fingerprint: str | None = None
    """Fingerprint of the model of `dense`."""


def keep_side(query: EmbeddedQuery, side: Side | None) -> EmbeddedQuery:
    """Return the query with what this side compares; None keeps both sides."""
    if side == "lexical":
        return replace(query, dense=None, parts=())
    if side == "dense":
        return replace(query, indices=(), values=(), terms=())
    return query


class QueryEmbedder(Protocol):
    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        """Return vectors of a query and its sentences, made by the model with this fingerprint.

        Raises RequestError if the embedder does not answer.
        """
        ...
