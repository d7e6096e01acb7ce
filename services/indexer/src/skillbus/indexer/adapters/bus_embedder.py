"""Models as the embedder tells of them."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder.embedding import EMBED_TEXTS, EmbedTexts, SparseVector, TextRole
from skillbus.contracts.embedder.registry import GET_DEFAULT_MODEL
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK, Empty, FloatMatrix
from skillbus.indexer.adapters.points import Texts, Vectors
from skillbus.indexer.domain.errors import DenseUnavailableError
from skillbus.indexer.domain.index.ports import NO_MODEL, DefaultModel
from skillbus.vectors.directions import compute_mean_direction

_NONE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
_NO_DENSE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
"""What the embedder answers when it has no such model, or not now."""
_CHARACTERS_AT_ONCE: Final = 65_536
"""Of one request: neither it, in UTF-8, nor its reply with sparse vectors, at some 10 bytes a term, comes near the
1 MiB that a message may have."""
_TEXTS_AT_ONCE: Final = 48
"""Of one request: so does its reply with dense vectors, 16 KiB each of the longest that models give."""


class BusModels:
    """Asks the embedder, and remembers the models that were the default while this process ran."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[str, DefaultModel] = {}

    async def default(self) -> DefaultModel | None:
        try:
            model = await self._caller.call(GET_DEFAULT_MODEL, Empty())
        except RequestError as error:
            if error.code in _NONE:
                return None
            raise
        if model.fingerprint is None or model.dimensions is None or not model.enabled:
            return None
        default = DefaultModel(model.name, model.fingerprint, model.dimensions)
        self._known[default.fingerprint] = default
        return default

    def known(self, fingerprint: str) -> DefaultModel | None:
        return self._known.get(fingerprint)


class TextVectors:
    """Asks the embedder for vectors of documents. Methods raise RequestError when it cannot be had."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def of(self, fingerprint: str, texts: Texts, *, dense_required: bool) -> Vectors:
        """Vectors as `Points.of` promises them."""
        if fingerprint == NO_MODEL:
            return Vectors(await self._sparse(texts), None, NO_MODEL, whole=True)
        dense, sparse = await asyncio.gather(
            self._dense(fingerprint, texts.dense), self._sparse(texts), return_exceptions=True
        )
        if isinstance(sparse, BaseException):
            raise sparse
        if isinstance(dense, DenseUnavailableError) and not dense_required:
            return Vectors(sparse, None, NO_MODEL, whole=False)
        if isinstance(dense, BaseException):
            raise dense
        return Vectors(sparse, dense, fingerprint, whole=True)

    async def _dense(self, fingerprint: str, entries: Sequence[tuple[str, ...]]) -> list[list[float]]:
        texts = tuple(text for of_entry in entries for text in of_entry)
        matrices = [await self._matrix(fingerprint, texts[part]) for part in _parts(list(map(len, texts)))]
        if len(texts) == len(entries):
            return [row for matrix in matrices for row in matrix.to_rows()]
        return _means(matrices, list(map(len, entries)))

    async def _matrix(self, fingerprint: str, texts: tuple[str, ...]) -> FloatMatrix:
        request = EmbedTexts(texts=texts, role=TextRole.DOCUMENT, model=fingerprint)
        try:
            reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        except RequestError as error:
            if error.code in _NO_DENSE:
                raise DenseUnavailableError(fingerprint, error.message) from error
            raise
        if reply.dense is None or reply.model is None:
            raise DenseUnavailableError(fingerprint, reply.degraded or "it answered without vectors")
        if reply.model.fingerprint != fingerprint:
            raise DenseUnavailableError(fingerprint, f"{reply.model.fingerprint} answered in its place")
        return reply.dense

    async def _sparse(self, texts: Texts) -> list[SparseVector]:
        made = list[SparseVector]()
        lengths = [len(text) + len(aside) for text, aside in zip(texts.lexical, texts.asides, strict=True)]
        for part in _parts(lengths):
            request = EmbedTexts(
                texts=texts.lexical[part],
                asides=texts.asides[part],
                mean_terms=texts.mean_terms,
                role=TextRole.DOCUMENT,
                dense=False,
                sparse=True,
            )
            reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
            made += reply.sparse or ()
        return made


def _parts(lengths: Sequence[int]) -> Iterator[slice]:
    """Which texts of these lengths go together: all, unless they are many or long."""
    start = characters = 0
    for at, length in enumerate(lengths):
        characters += length
        if at > start and (characters > _CHARACTERS_AT_ONCE or at - start == _TEXTS_AT_ONCE):
            yield slice(start, at)
            start, characters = at, length
    yield slice(start, len(lengths))


def _means(matrices: Sequence[FloatMatrix], counts: Sequence[int]) -> list[list[float]]:
    """The direction in between of so many rows each."""
    rows = np.concatenate([np.frombuffer(m.data, "<f4").reshape(m.count, m.dim) for m in matrices])
    ends = list(accumulate(counts))
    return [compute_mean_direction(rows[end - count : end]).tolist() for end, count in zip(ends, counts, strict=True)]
