"""What a search of the knowledge base gives, for whoever answers with it or builds on it."""

from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.retriever.knowledge_search import KnowledgeHit, KnowledgeSearchExplanation, SearchKnowledge


@dataclass(frozen=True, slots=True)
class FoundKnowledge:
    """The answer of a search."""

    hits: tuple[KnowledgeHit, ...] = ()
    """Best first: in descending order of `score`."""
    model: str | None = None
    """Name of the model that embedded the query."""
    degraded: bool = False
    """Whether the lexical side answered alone."""
    explanation: KnowledgeSearchExplanation | None = None


class KnowledgeFinder(Protocol):
    """Searches the knowledge base."""

    async def find(self, request: SearchKnowledge, at_most: int | None = None) -> FoundKnowledge:
        """The items that fit, best first, each as the record has it now.

        `at_most` stands for the request's `top_k` where more hits are wanted than a request may have. Nothing is noted
        of the use of what is found: the caller knows what it is used for.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RecordUnavailableError: The learner does not answer.
            RequestError: The embedder cannot be had.
        """
        ...
