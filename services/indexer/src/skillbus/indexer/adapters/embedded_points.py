"""Points of any dataset: vectors by the embedder, of one model each, and what is stored beside them."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

import numpy as np
from pydantic import JsonValue
from qdrant_client import models

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role, SparseVector
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK, FloatMatrix
from skillbus.indexer.domain.content_hash import NO_MODEL
from skillbus.indexer.domain.entries import EntryT_contra, Key
from skillbus.indexer.domain.errors import DenseUnavailableError
from skillbus.vectors import DENSE, LEXICAL
from skillbus.vectors.datasets import Dataset
from skillbus.vectors.directions import mean_of

_NO_DENSE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
"""What the embedder answers when it has no such model, or not now."""
_CHARACTERS_AT_ONCE: Final = 65_536
"""Of one request: neither it, in UTF-8, nor its reply with sparse vectors, at some 10 bytes a term, comes near the
1 MiB that a message may have."""
_TEXTS_AT_ONCE: Final = 48
"""Of one request: so does its reply with dense vectors, 16 KiB each of the longest that models give."""


@dataclass(frozen=True, slots=True)
class MadePoints:
    """Points of some entries."""

    points: list[models.PointStruct]
    whole: bool
    """Whether they have all the vectors that their collection is for."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the points of a dataset lie in a store."""

    dataset: Dataset
    id_field: str | None
    """The payload field that has an entry's id, or None where it is the id of its point.

    `project` and `content_hash` have the rest of what is compared.
    """
    keywords: tuple[str, ...]
    numbers: tuple[str, ...] = ()


class Points(Protocol[EntryT_contra]):
    """Makes the points of one dataset."""

    @property
    def layout(self) -> Layout:
        """How they lie."""
        ...

    def point_of(self, key: Key) -> str:
        """The id of an entry's point."""
        ...

    async def of(self, fingerprint: str, entries: Sequence[EntryT_contra], *, dense_required: bool) -> MadePoints:
        """Points with vectors of exactly that model, or, unless those are required, with sparse vectors alone.

        Raises:
            DenseUnavailableError: They are required, and the embedder does not give them now.
            RequestError: The embedder cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """What is embedded of some entries, each in their order."""

    dense: Sequence[tuple[str, ...]]
    """One text or more of each entry: the direction in between their vectors is its own."""
    lexical: tuple[str, ...]
    asides: tuple[str, ...]
    """Whose words count half beside those of `lexical`."""
    mean_terms: float | None = None
    """Of lexical texts of their kind; that of tools if absent."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """What the embedder made of texts."""

    sparse: Sequence[SparseVector]
    dense: Sequence[list[float]] | None
    fingerprint: str
    """Whose dense vectors they are; `NO_MODEL` where there are none."""
    whole: bool

    def points(self, ids: Sequence[str], payloads: Sequence[dict[str, JsonValue]]) -> MadePoints:
        """Points with these vectors.

        Not validated here: the store checks what it takes, and doing it twice took as long as writing them.
        """
        points = []
        for number, (point, lexical, payload) in enumerate(zip(ids, self.sparse, payloads, strict=True)):
            vectors: dict[str, models.Vector] = {
                LEXICAL: models.SparseVector.model_construct(indices=list(lexical.indices), values=list(lexical.values))
            }
            if self.dense is not None:
                vectors[DENSE] = self.dense[number]
            points.append(models.PointStruct.model_construct(id=point, vector=vectors, payload=payload))
        return MadePoints(points, self.whole)


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
            return [row for matrix in matrices for row in matrix.rows()]
        return _means(matrices, list(map(len, entries)))

    async def _matrix(self, fingerprint: str, texts: tuple[str, ...]) -> FloatMatrix:
        request = EmbedTexts(texts=texts, role=Role.DOCUMENT, model=fingerprint)
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
                role=Role.DOCUMENT,
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
    return [mean_of(rows[end - count : end]).tolist() for end, count in zip(ends, counts, strict=True)]
