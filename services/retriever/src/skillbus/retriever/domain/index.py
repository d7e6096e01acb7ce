"""The index that is searched now."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """A collection of the vector store."""

    collection: str
    fingerprint: str
    """Of the model whose vectors it holds."""
    items: int
    """How many it holds, of all projects: what IDF is counted over."""
