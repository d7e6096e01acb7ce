"""Items that the index lacks, embedded as it will embed them, by the embedder over the bus."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, SparseVector, TextRole
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.message import MSGPACK
from skillbus.relevance.knowledge_text import (
    MEAN_TERMS,
    build_item_aside_text,
    build_item_dense_texts,
    build_item_lexical_text,
)
from skillbus.retriever.adapters.matrix import rows_of
from skillbus.retriever.domain.knowledge.ports import ItemVectors
from skillbus.vectors.datasets import NO_MODEL
from skillbus.vectors.directions import mean_of

_FEW: Final = 8
_FEW_WAIT_S: Final = 2.0
"""For dense vectors of a few items: somebody wrote them just now, and looks for them."""
_MANY_WAIT_S: Final = 0.3
"""For those of many: an import is at work, and the model with it. A search does not wait for that."""
_AT_ONCE: Final = 50
"""Items of a message: at most nine texts each, of the 512 that one takes."""
_TEXT_CHARACTERS: Final = 32_768
"""What the embedder takes as one text."""
_LATE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.OVERLOADED})

log = structlog.get_logger(__name__)


class BusItems:
    """An `ItemEmbedder` that remembers the last `size` items: a new one is searched again until the index has it."""

    def __init__(self, caller: Caller, size: int) -> None:
        self._caller = caller
        self._size = size
        self._known: OrderedDict[tuple[str | None, str], ItemVectors] = OrderedDict()

    async def embed(self, items: Sequence[KnowledgeItem], fingerprint: str | None) -> Mapping[str, ItemVectors]:
        """An item that the model is too busy for has no dense vector, and is searched by its words."""
        model = None if fingerprint == NO_MODEL else fingerprint
        wanted = {item.digest: item for item in items}
        known = {digest: found for digest in wanted if (found := self._known.get((model, digest)))}
        left = [item for digest, item in wanted.items() if digest not in known]
        wait_s = _FEW_WAIT_S if len(left) <= _FEW else _MANY_WAIT_S
        pages = [left[at : at + _AT_ONCE] for at in range(0, len(left), _AT_ONCE)]
        for vectors in await asyncio.gather(*(self._ask(page, model, wait_s) for page in pages)):
            known |= vectors
            self._keep(vectors, model)
        return known

    def _keep(self, vectors: Mapping[str, ItemVectors], model: str | None) -> None:
        for digest, one in vectors.items():
            if model is None or one.dense is not None:
                self._known[model, digest] = one
        while len(self._known) > self._size:
            self._known.popitem(last=False)

    async def _ask(self, items: Sequence[KnowledgeItem], model: str | None, wait_s: float) -> dict[str, ItemVectors]:
        dense, sparse = await asyncio.gather(self._dense(items, model, wait_s), self._sparse(items))
        return {
            item.digest: ItemVectors(row, np.array(words.indices, np.uint32), np.array(words.values, np.float32))
            for item, row, words in zip(items, dense, sparse, strict=True)
        }

    async def _dense(
        self, items: Sequence[KnowledgeItem], model: str | None, wait_s: float
    ) -> list[NDArray[np.float32] | None]:
        if model is None:
            return [None] * len(items)
        texts = [build_item_dense_texts(item.title, item.content) for item in items]
        asked = EmbedTexts(texts=tuple(text for some in texts for text in some), role=TextRole.DOCUMENT, model=model)
        try:
            embedded = await self._caller.call(EMBED_TEXTS, asked, timeout_s=wait_s, content_type=MSGPACK)
        except RequestError as error:
            if error.code not in _LATE:
                raise
            log.warning("knowledge_searched_by_words", items=len(items), code=error.code, reason=error.message)
            return [None] * len(items)
        rows = rows_of(embedded.dense)
        return [mean_of(rows[begin:end]) for begin, end in pairwise(accumulate(map(len, texts), initial=0))]

    async def _sparse(self, items: Sequence[KnowledgeItem]) -> tuple[SparseVector, ...]:
        asked = EmbedTexts(
            texts=tuple(
                build_item_lexical_text(item.title, item.content, item.tags)[:_TEXT_CHARACTERS] for item in items
            ),
            asides=tuple(build_item_aside_text(item.scope) for item in items),
            role=TextRole.DOCUMENT,
            dense=False,
            sparse=True,
            mean_terms=MEAN_TERMS,
        )
        embedded = await self._caller.call(EMBED_TEXTS, asked, content_type=MSGPACK)
        return embedded.sparse or ()
