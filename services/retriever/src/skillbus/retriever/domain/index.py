"""The index that a search reads, and what both of its sides return."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The collection that is searched now."""

    collection: str
    fingerprint: str
    """Fingerprint of the model whose vectors it holds."""
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
