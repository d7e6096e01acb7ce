"""Requests embedded by the embedder, over the bus."""

from array import array

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role
from skillbus.contracts.message import MSGPACK
from skillbus.retriever.domain.relevance import relevance_of
from skillbus.retriever.domain.search import EmbeddedQuery
from skillbus.retriever.domain.sentences import mean_of
from skillbus.vectors.tools import NO_MODEL


class BusEmbedder:
    """One message a request: dense and sparse vectors together.

    Of a request with sentences the model embeds these alone, and their mean stands for the whole: half the time, and
    the same recall as with a vector of the whole.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def embed(self, query: str, parts: tuple[str, ...], fingerprint: str) -> EmbeddedQuery:
        request = EmbedTexts(
            texts=parts or (query,),
            sparse_texts=(query,),
            role=Role.QUERY,
            dense=fingerprint != NO_MODEL,
            sparse=True,
            model=fingerprint,
        )
        embedded = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        sparse = (embedded.sparse or ())[0]
        rows = [array("f", row) for row in embedded.dense.rows()] if embedded.dense else []
        return EmbeddedQuery(
            dense=mean_of(rows) if rows else None,
            indices=sparse.indices,
            values=sparse.values,
            terms=sparse.terms,
            model=embedded.model.name if embedded.model else None,
            relevance=relevance_of(embedded.model.calibration if embedded.model else None),
            parts=tuple(rows) if parts else (),
        )
