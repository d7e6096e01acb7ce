"""Queries embedded by the embedder, over the bus."""

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role
from skillbus.contracts.message import MSGPACK
from skillbus.retriever.domain.relevance import relevance_of
from skillbus.retriever.domain.search import EmbeddedQuery
from skillbus.vectors.tools import NO_MODEL


class BusEmbedder:
    """One request a query: dense and sparse together."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def embed(self, query: str, fingerprint: str) -> EmbeddedQuery:
        request = EmbedTexts(
            texts=(query,), role=Role.QUERY, dense=fingerprint != NO_MODEL, sparse=True, model=fingerprint
        )
        embedded = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        sparse = (embedded.sparse or ())[0]
        return EmbeddedQuery(
            dense=embedded.dense.rows()[0] if embedded.dense else None,
            indices=sparse.indices,
            values=sparse.values,
            terms=sparse.terms,
            model=embedded.model.name if embedded.model else None,
            relevance=relevance_of(embedded.model.calibration if embedded.model else None),
        )
