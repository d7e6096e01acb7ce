"""The embedder: its default model, and vectors of documents."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from skillbus.common.bus.caller import Caller
from skillbus.common.paging import cut_batches
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, SparseVector, TextRole
from skillbus.contracts.embedder.registry import GET_DEFAULT_MODEL
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK, Empty, FloatMatrix
from skillbus.indexer.adapters.points.layout import EntryTexts, EntryVectors
from skillbus.indexer.domain.errors import DenseUnavailableError
from skillbus.indexer.domain.index.ports import NO_MODEL, DefaultModel
from skillbus.vectors.mean_direction import compute_mean_direction

_NO_MODEL_CODES: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
"""Errors of the embedder when it does not have a model, or not now."""
_REQUEST_CHARACTERS: Final = 65_536
"""Texts of one request. The request in UTF-8, and a reply with sparse vectors of some 10 bytes a term, stay well below
the 1 MiB of a message."""
_REQUEST_TEXTS: Final = 48
"""Texts of one request. A reply with dense vectors, the longest of 16 KiB each, stays below 1 MiB."""


class BusModels:
    """Asks the embedder, and remembers the models that were the default since the process started."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[str, DefaultModel] = {}

    async def load_default(self) -> DefaultModel | None:
        try:
            model = await self._caller.call(GET_DEFAULT_MODEL, Empty())
        except RequestError as error:
            if error.code in _NO_MODEL_CODES:
                return None
            raise
        if model.fingerprint is None or model.dimensions is None or not model.enabled:
            return None
        default = DefaultModel(model.name, model.fingerprint, model.dimensions)
        self._known[default.fingerprint] = default
        return default

    def recall_model(self, fingerprint: str) -> DefaultModel | None:
        return self._known.get(fingerprint)


class DocumentEmbedder:
    """Asks the embedder for vectors of documents. Methods raise RequestError when it is unavailable."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def embed_entries(self, fingerprint: str, texts: EntryTexts, *, dense_required: bool) -> EntryVectors:
        """Embed texts as `PointBuilder.build_points` promises."""
        if fingerprint == NO_MODEL:
            return EntryVectors(await self._embed_sparse(texts), None, NO_MODEL, complete=True)
        dense, sparse = await asyncio.gather(
            self._embed_dense(fingerprint, texts.dense), self._embed_sparse(texts), return_exceptions=True
        )
        if isinstance(sparse, BaseException):
            raise sparse
        if isinstance(dense, DenseUnavailableError) and not dense_required:
            return EntryVectors(sparse, None, NO_MODEL, complete=False)
        if isinstance(dense, BaseException):
            raise dense
        return EntryVectors(sparse, dense, fingerprint, complete=True)

    async def _embed_dense(self, fingerprint: str, entries: Sequence[tuple[str, ...]]) -> list[list[float]]:
        texts = tuple(text for entry in entries for text in entry)
        batches = cut_batches(map(len, texts), max_size=_REQUEST_CHARACTERS, max_items=_REQUEST_TEXTS)
        matrices = [await self._request_dense(fingerprint, texts[batch]) for batch in batches]
        if len(texts) == len(entries):
            return [row for matrix in matrices for row in matrix.to_rows()]
        # An entry of several texts gets the mean direction of their vectors.
        rows = np.concatenate([np.frombuffer(m.data, "<f4").reshape(m.count, m.dim) for m in matrices])
        counts = list(map(len, entries))
        ends = accumulate(counts)
        return [
            compute_mean_direction(rows[end - count : end]).tolist() for end, count in zip(ends, counts, strict=True)
        ]

    async def _request_dense(self, fingerprint: str, texts: tuple[str, ...]) -> FloatMatrix:
        request = EmbedTexts(texts=texts, role=TextRole.DOCUMENT, model=fingerprint)
        try:
            reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        except RequestError as error:
            if error.code in _NO_MODEL_CODES:
                raise DenseUnavailableError(fingerprint, error.message) from error
            raise
        if reply.dense is None or reply.model is None:
            raise DenseUnavailableError(fingerprint, reply.degraded or "the embedder answered without vectors")
        if reply.model.fingerprint != fingerprint:
            raise DenseUnavailableError(fingerprint, f"{reply.model.fingerprint} answered instead")
        return reply.dense

    async def _embed_sparse(self, texts: EntryTexts) -> list[SparseVector]:
        vectors = list[SparseVector]()
        sizes = [len(text) + len(aside) for text, aside in zip(texts.lexical, texts.asides, strict=True)]
        for batch in cut_batches(sizes, max_size=_REQUEST_CHARACTERS, max_items=_REQUEST_TEXTS):
            request = EmbedTexts(
                texts=texts.lexical[batch],
                asides=texts.asides[batch],
                mean_terms=texts.mean_terms,
                role=TextRole.DOCUMENT,
                dense=False,
                sparse=True,
            )
            reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
            vectors += reply.sparse or ()
        return vectors
