"""Requests embedded by the embedder, over the bus."""

from array import array

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, TextRole
from skillbus.contracts.message import MSGPACK
from skillbus.relevance.score import build_relevance
from skillbus.retriever.adapters.matrix import rows_of
from skillbus.retriever.domain.query import EmbeddedQuery
from skillbus.vectors.datasets import NO_MODEL
from skillbus.vectors.directions import mean_of


class BusEmbedder:
    """One message a request: dense and sparse vectors together.

    Of a request with sentences the model embeds these alone, and their mean stands for the whole: half the time, and
    the same recall as with a vector of the whole.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def embed(self, query: str, parts: tuple[str, ...], fingerprint: str | None) -> EmbeddedQuery:
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
        rows = rows_of(embedded.dense)
        return EmbeddedQuery(
            dense=array("f", mean_of(rows).tobytes()) if len(rows) else None,
            indices=sparse.indices,
            values=sparse.values,
            terms=sparse.terms,
            model=embedded.model.name if embedded.model else None,
            relevance=build_relevance(embedded.model.calibration if embedded.model else None),
            parts=tuple(array("f", row.tobytes()) for row in rows) if parts else (),
            fingerprint=embedded.model.fingerprint if embedded.model else None,
        )
