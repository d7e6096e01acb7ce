"""Queries embedded by the embedder over the bus, and a cache of them."""

from array import array
from dataclasses import replace

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole
from skillbus.contracts.message import MSGPACK
from skillbus.relevance.score import Relevance, build_relevance
from skillbus.retriever.domain.index import EmbeddedQuery, QueryEmbedder
from skillbus.vectors.datasets import NO_MODEL
from skillbus.vectors.mean_direction import compute_mean_direction


class BusEmbedder:
    """A `QueryEmbedder` that asks for dense and sparse vectors in one request.

    Of a query with several sentences the model embeds only the sentences, and their mean stands for the whole: that
    takes half the time, with the same recall as a vector of the whole.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        request = EmbedTexts(
            texts=parts or (query,),
            sparse_texts=(query,),
            role=TextRole.QUERY,
            dense=fingerprint != NO_MODEL,
            sparse=True,
            model=fingerprint,
        )
        embedded = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK, allow_local=True)
        sparse = (embedded.sparse or ())[0]
        rows: NDArray[np.float32] = np.empty((0, 0), np.float32)
        if (matrix := embedded.dense) is not None:
            rows = np.frombuffer(matrix.data, "<f4").reshape(matrix.count, matrix.dim).astype(np.float32, copy=False)
        return EmbeddedQuery(
            dense=array("f", compute_mean_direction(rows).tobytes()) if len(rows) else None,
            indices=sparse.indices,
            values=sparse.values,
            terms=sparse.terms,
            model=embedded.model.name if embedded.model else None,
            relevance=build_relevance(embedded.model.calibration if embedded.model else None),
            parts=tuple(array("f", row.tobytes()) for row in rows) if parts else (),
            fingerprint=embedded.model.fingerprint if embedded.model else None,
        )


class QueryCache:
    """A `QueryEmbedder` with a cache of the last `size` queries: a model gives one text always the same vectors.

    Queries without a dense vector are not cached.
    """

    def __init__(self, embedder: QueryEmbedder, size: int) -> None:
        self._embedder = embedder
        self._queries: LRUCache[tuple[str, str, tuple[str, ...]], EmbeddedQuery] = LRUCache(size)
        self._relevance: dict[str, Relevance] = {}
        """Maps by fingerprint as of the embedder's last reply: an operator can change a map while vectors stay."""

    async def embed_query(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        key = (fingerprint, query, parts)
        if known := self._queries.get(key):
            return replace(known, relevance=self._relevance[fingerprint])
        embedded = await self._embedder.embed_query(query, parts, fingerprint)
        if embedded.dense is not None:
            self._relevance[fingerprint] = embedded.relevance
            self._queries[key] = embedded
        return embedded
