"""What a search of the knowledge base asks of others."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.learner.index import FoundItem, KnowledgeMatched
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.message import Project
from skillbus.contracts.retriever.knowledge_search import KnowledgeFilter, SearchKnowledge
from skillbus.retriever.domain.index import LiveIndex
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.retriever.domain.tools.ranking import Candidate


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
    """A candidate, and which version of the item it is."""

    candidate: Candidate
    version: int
    """Or an older one than was compared with the query, never a newer one."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a search found in the index, as the record is asked about it."""

    items: tuple[str, ...]
    """Nearest first."""
    whole: int
    """Of so many the content is wanted."""
    at: float
    """When the index began to be asked, of `time.monotonic`."""


class KnowledgeIndex(Protocol):
    """The index of knowledge. The id of a candidate is that of its item. Every method raises StoreUnavailableError."""

    async def live(self) -> LiveIndex | None:
        """The index that is searched now; None while nothing was ever indexed."""
        ...

    async def passing(self, live: LiveIndex, wanted: WantedKnowledge) -> int:
        """How many items pass the filter."""
        ...

    async def candidates(self, live: LiveIndex, query: EmbeddedQuery, wanted: WantedKnowledge) -> Sequence[Candidate]:
        """What either side finds; with a dense query each has a cosine, unless the index has no dense vector of it."""
        ...

    async def again(self, live: LiveIndex, query: EmbeddedQuery, items: Sequence[str]) -> Mapping[str, IndexedItem]:
        """Those of these items that the index has, as it has them now."""
        ...

    async def terms(self, live: LiveIndex, items: Sequence[str]) -> Mapping[str, Container[int]]:
        """The indices of the terms that these items hold; those that are gone are left out."""
        ...


class KnowledgeRecord(Protocol):
    """What the learner says of items. Every method raises RecordUnavailableError."""

    async def projects(self, request: SearchKnowledge) -> tuple[Project, ...]:
        """Whose items count, as far as it is known: `matched` says whose do."""
        ...

    async def matched(self, request: SearchKnowledge, looked: Looked) -> KnowledgeMatched:
        """Of what was found that which may be shown to who asks, as it is now; what fits the filters and is not in the
        index yet, or came into it since; and whose items count."""
        ...

    async def shown(self, request: SearchKnowledge, ids: Sequence[str]) -> Sequence[FoundItem]:
        """Of these items those that may be shown to who asks, as they are now, with their content."""
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
