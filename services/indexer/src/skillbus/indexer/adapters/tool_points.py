"""Points of tools: their vectors by the embedder, and what is stored beside them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue
from qdrant_client import models

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role, SparseVector
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import MSGPACK
from skillbus.indexer.domain.content_hash import NO_MODEL, content_hash
from skillbus.indexer.domain.errors import DenseUnavailableError
from skillbus.indexer.domain.index_entry import IndexEntry, skill_name_of
from skillbus.indexer.domain.tool_text import arguments_of, aside_text, dense_text, lexical_text
from skillbus.vectors import DENSE, LEXICAL, point_id

_NO_DENSE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
"""What the embedder answers when it has no such model, or not now."""


def point_of(project: str, tool_id: str) -> str:
    """The id of a tool's point."""
    return point_id(project, tool_id)


@dataclass(frozen=True, slots=True)
class MadePoints:
    """Points of some tools."""

    points: list[models.PointStruct]
    whole: bool
    """Whether they have all the vectors that their collection is for."""


class ToolPoints:
    """Makes points with vectors of one model each."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def of(self, fingerprint: str, entries: Sequence[IndexEntry], *, dense_required: bool) -> MadePoints:
        """Points with vectors of exactly that model, or, unless those are required, with sparse vectors alone.

        Raises:
            DenseUnavailableError: They are required, and the embedder does not give them now.
            RequestError: The embedder cannot be had.
        """
        if fingerprint == NO_MODEL:
            return MadePoints(_points(entries, await self._sparse(entries), None, NO_MODEL), whole=True)
        dense, sparse = await asyncio.gather(
            self._dense(fingerprint, entries), self._sparse(entries), return_exceptions=True
        )
        if isinstance(sparse, BaseException):
            raise sparse
        if isinstance(dense, DenseUnavailableError) and not dense_required:
            return MadePoints(_points(entries, sparse, None, NO_MODEL), whole=False)
        if isinstance(dense, BaseException):
            raise dense
        return MadePoints(_points(entries, sparse, dense, fingerprint), whole=True)

    async def _dense(self, fingerprint: str, entries: Sequence[IndexEntry]) -> list[list[float]]:
        texts = tuple(dense_text(e.name, e.description, e.tags, e.parameters) for e in entries)
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
        return reply.dense.rows()

    async def _sparse(self, entries: Sequence[IndexEntry]) -> tuple[SparseVector, ...]:
        texts = tuple(lexical_text(e.name, e.description, e.tags, e.parameters, e.examples) for e in entries)
        asides = tuple(aside_text(e.provider, e.parameters) for e in entries)
        request = EmbedTexts(texts=texts, asides=asides, role=Role.DOCUMENT, dense=False, sparse=True)
        reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        return reply.sparse or ()


def _points(
    entries: Sequence[IndexEntry],
    sparse: Sequence[SparseVector],
    dense: Sequence[list[float]] | None,
    fingerprint: str,
) -> list[models.PointStruct]:
    """Not validated here: the store checks what it takes, and doing it twice took as long as writing them."""
    points = []
    for number, (entry, lexical) in enumerate(zip(entries, sparse, strict=True)):
        vectors: dict[str, models.Vector] = {
            LEXICAL: models.SparseVector.model_construct(indices=list(lexical.indices), values=list(lexical.values))
        }
        if dense is not None:
            vectors[DENSE] = dense[number]
        point, payload = point_of(*entry.key), _payload(entry, fingerprint)
        points.append(models.PointStruct.model_construct(id=point, vector=vectors, payload=payload))
    return points


def _payload(entry: IndexEntry, fingerprint: str) -> dict[str, JsonValue]:
    """What is stored beside the vectors: what is filtered by, ranked by and shown."""
    arguments = list(arguments_of(entry.parameters))
    skill = skill_name_of(entry.tool_id)
    return {
        "project": entry.project,
        "tool_id": entry.tool_id,
        "tool_type": entry.tool_type.value,
        "name": entry.name,
        "description": entry.description,
        "tags": list(entry.tags),
        "source": entry.source,
        "provider": entry.provider,
        "arguments": [name for name, _ in arguments],
        "argument_text": " ".join(text for _, text in arguments if text),
        "examples": list(entry.examples),
        **({"path": f"skills/{skill}"} if skill else {}),
        "metadata": {**entry.metadata, "type": entry.tool_type.value},
        "content_hash": content_hash(entry, fingerprint),
        "indexed_at": datetime.now(UTC).isoformat(),
    }
