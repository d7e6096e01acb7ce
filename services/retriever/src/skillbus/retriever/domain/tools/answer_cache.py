"""Cache of answers to searches for tools, each for as long as its index stays the same."""

from typing import Final, NamedTuple, Self

from cachetools import LRUCache

from skillbus.contracts.retriever.tool_search import SearchTools, ToolsFound
from skillbus.relevance.score import Relevance
from skillbus.retriever.domain.index import EmbeddedQuery, LiveIndex

_KEPT_HITS: Final = 4_096
"""Hits of all answers together, some 4 kB each."""


class ToolAnswerKey(NamedTuple):
    """Everything that an answer depends on."""

    request: str
    """The request as JSON."""
    live: LiveIndex
    revision: int
    indexed: int
    """Tools of the project: the bound of a search without a threshold depends on it."""
    relevance: Relevance
    """Map of the model, which an operator may change."""

    @classmethod
    def make(
        cls, request: SearchTools, live: LiveIndex, revision: int | None, query: EmbeddedQuery, indexed: int
    ) -> Self | None:
        """Return the key of a search; None if its answer cannot be kept.

        It is not kept where writes may pass unnoticed, while the model is away, if it explains this very search, or if
        it holds the functions of its hits, which may be large.
        """
        if revision is None or query.model is None or request.explain or request.functions:
            return None
        return cls(request.model_dump_json(), live, revision, indexed, query.relevance)


class ToolAnswerCache:
    """The answers that were used last. A search of text seen before takes a third of the processor time with it."""

    def __init__(self, hits: int = _KEPT_HITS) -> None:
        """Keep answers with `hits` hits together."""
        self._answers: LRUCache[ToolAnswerKey, ToolsFound] = LRUCache(hits, getsizeof=_count_hits)

    def get_answer(self, key: ToolAnswerKey | None) -> ToolsFound | None:
        return None if key is None else self._answers.get(key)

    def keep_answer(self, key: ToolAnswerKey | None, answer: ToolsFound) -> None:
        """Keep an answer that can be kept."""
        if key is not None and _count_hits(answer) <= self._answers.maxsize:
            self._answers[key] = answer


def _count_hits(answer: ToolsFound) -> int:
    return 1 + len(answer.results)
