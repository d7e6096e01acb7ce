"""Ports of the knowledge search: the index, the record, and the search itself, which the context builder calls."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.learner.index import KnowledgeFilter, KnowledgeMatched
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import KnowledgeHit, KnowledgeSearchExplanation, SearchKnowledge
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex


@dataclass(frozen=True, slots=True)
class WantedKnowledge:
    """Conditions for candidates, and their number."""

    filter: KnowledgeFilter
    projects: tuple[Project, ...]
    """Effective projects: the caller's, then those it inherits from."""
    at: float
    """Time at which they must be valid, in seconds since 1970."""
    count: int
    """Candidates of each side and, with a scope, of each group of scopes."""


class KnowledgeIndex(Protocol):
    """The index of knowledge. A candidate's id is its item's. Every method raises StoreUnavailableError."""

    async def find_live_index(self) -> LiveIndex | None:
        """Return the index that is searched now; None while nothing was ever indexed."""
        ...

    async def count_matching(self, live: LiveIndex, wanted: WantedKnowledge) -> int: ...

    async def find_candidates(
        self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge
    ) -> Sequence[IndexCandidate]:
        """Return the nearest points of either side.

        With a scope, near scopes and general items are searched apart: however many general items are near the query,
        they take no candidate's place from an item of the scope.
        """
        ...

    async def load_terms(self, live: LiveIndex, items: Sequence[str]) -> Mapping[str, Container[int]]:
        """Return the indices of the terms that these items hold; items that are gone are left out."""
        ...


class KnowledgeVisibility(Protocol):
    """The record, which decides what may be shown. The learner keeps it."""

    def recall_projects(self, request: SearchKnowledge) -> tuple[Project, ...]:
        """Return the effective projects as of the record's last reply; the caller's own if there was none."""
        ...

    async def confirm_candidates(self, request: SearchKnowledge, ids: Sequence[str]) -> KnowledgeMatched:
        """Return the candidates the caller may see at their current version, and the effective projects.

        Raises RecordUnavailableError.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoundKnowledge:
    """Result of a search."""

    hits: tuple[KnowledgeHit, ...] = ()
    """Best first; with a scope, the nearest scope first."""
    model: str | None = None
    """Name of the model that embedded the query."""
    degraded: bool = False
    """True if the lexical side answered alone."""
    index_behind: int = 0
    """Items of the effective projects that are not indexed yet at their current version."""
    explanation: KnowledgeSearchExplanation | None = None


class KnowledgeFinder(Protocol):
    async def search_knowledge(self, request: SearchKnowledge, at_most: int | None = None) -> FoundKnowledge:
        """Return the items that fit, best first, each as the record has it now.

        `at_most` overrides the request's `top_k` and may exceed its limit. The use of the hits is not recorded: the
        caller knows what they are used for.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RecordUnavailableError: The learner does not answer.
            RequestError: The embedder does not answer.
        """
        ...
