"""What a search of the knowledge base asks of others."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.knowledge import KnowledgeItem
from skillbus.contracts.knowledge_index import FoundItem, KnowledgeMatched
from skillbus.contracts.knowledge_search import KnowledgeFilter, SearchKnowledge
from skillbus.contracts.message import Project
from skillbus.retriever.domain.live_index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.ranking import Candidate


@dataclass(frozen=True, slots=True)
class WantedKnowledge:
    """What candidates must be, and how many of each side."""

    filter: KnowledgeFilter
    projects: tuple[Project, ...]
    """Whose items count."""
    at: float
    """When they must be valid, in seconds since 1970."""
    count: int


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """A candidate, and what it is a point of."""

    candidate: Candidate
    item_id: str
    version: int
    """Of the item, as it was when its vectors were made."""


class KnowledgeIndex(Protocol):
    """The index of knowledge. Every method raises StoreUnavailableError."""

    async def live(self) -> LiveIndex | None:
        """The index that is searched now; None while nothing was ever indexed."""
        ...

    async def passing(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        """How many items pass the filter."""
        ...

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge) -> Sequence[IndexedItem]:
        """What either side finds; with a dense query each has a cosine, unless the index has no dense vector of it."""
        ...

    async def terms(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, Container[int]]:
        """The indices of the terms that the items at these points hold; points that are gone are left out."""
        ...


class KnowledgeRecord(Protocol):
    """What the learner says of items. Every method raises RecordUnavailableError."""

    async def lacking(self, request: SearchKnowledge) -> KnowledgeMatched:
        """Items that fit the filters and that the index does not have yet, and the projects whose items count."""
        ...

    async def shown(self, request: SearchKnowledge, ids: Sequence[str]) -> Sequence[FoundItem]:
        """Of these items those that may be shown to who asks, as they are now."""
        ...


@dataclass(frozen=True, slots=True)
class ItemVectors:
    """An item as the index would hold it."""

    dense: NDArray[np.float32] | None
    """Shape (dim,), of length 1; None when it cannot be had in time."""
    indices: NDArray[np.uint32]
    """Of its terms, ascending."""
    values: NDArray[np.float32]


class ItemEmbedder(Protocol):
    """Makes vectors of items that the index lacks."""

    async def embed(self, items: Sequence[KnowledgeItem], fingerprint: str | None) -> Mapping[str, ItemVectors]:
        """By the digest of each item, for vectors of this model; terms alone where there is none.

        Raises RequestError when nobody embeds them.
        """
        ...
