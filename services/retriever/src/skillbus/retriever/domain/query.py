"""A request as the two sides of a search read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.relevance.score import Relevance


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A request as vectors."""

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
    parts: tuple[Sequence[float], ...] = ()
    """As `dense`, of each of its sentences; none when they cannot be had."""
    fingerprint: str | None = None
    """Of the model of `dense`."""


class QueryEmbedder(Protocol):
    """Turns requests into vectors."""

    async def embed(self, query: str, parts: tuple[str, ...], fingerprint: str | None) -> EmbeddedQuery:
        """A request and its sentences for vectors of this model, or of the default one where there are none yet.

        Raises RequestError when nobody embeds it.
        """
        ...
