"""Queries that were embedded before: the same text for the same model is the same vectors for ever."""

from collections import OrderedDict
from dataclasses import replace

from skillbus.relevance.score import Relevance
from skillbus.retriever.domain.query import EmbeddedQuery, QueryEmbedder


class QueryCache:
    """A `QueryEmbedder` that remembers the last `size` queries.

    What came without a dense vector is asked again, and so is what is embedded by whichever model is the default one.
    """

    def __init__(self, embedder: QueryEmbedder, size: int) -> None:
        self._embedder = embedder
        self._size = size
        self._known: OrderedDict[tuple[str, str, tuple[str, ...]], EmbeddedQuery] = OrderedDict()
        self._relevance: dict[str, Relevance] = {}
        """By fingerprint, as the embedder said last: an operator can change it, and vectors stay as they are."""

    async def embed(self, query: str, parts: tuple[str, ...], fingerprint: str | None) -> EmbeddedQuery:
        if fingerprint is None:
            return await self._embedder.embed(query, parts, None)
        key = (fingerprint, query, parts)
        if known := self._known.get(key):
            self._known.move_to_end(key)
            return replace(known, relevance=self._relevance[fingerprint])
        embedded = await self._embedder.embed(query, parts, fingerprint)
        if embedded.dense is not None:
            self._relevance[fingerprint] = embedded.relevance
            self._known[key] = embedded
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return embedded
