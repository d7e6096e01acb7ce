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
from skillbus.contracts.tools import ToolType
from skillbus.indexer.domain.content_hash import NO_MODEL, content_hash
from skillbus.indexer.domain.errors import DenseUnavailableError
from skillbus.indexer.domain.record import SkillRecord, tool_id_of
from skillbus.indexer.domain.tool_text import dense_text, lexical_text
from skillbus.vectors import DENSE, LEXICAL, point_id

_NO_DENSE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})
"""What the embedder answers when it has no such model, or not now."""


def point_of(project: str, name: str) -> str:
    """The id of a skill's point."""
    return point_id(project, tool_id_of(name))


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

    async def of(self, fingerprint: str, records: Sequence[SkillRecord], *, dense_required: bool) -> MadePoints:
        """Points with vectors of exactly that model, or, unless those are required, with sparse vectors alone.

        Raises:
            DenseUnavailableError: They are required, and the embedder does not give them now.
            RequestError: The embedder cannot be had.
        """
        if fingerprint == NO_MODEL:
            return MadePoints(_points(records, await self._sparse(records), None, NO_MODEL), whole=True)
        dense, sparse = await asyncio.gather(
            self._dense(fingerprint, records), self._sparse(records), return_exceptions=True
        )
        if isinstance(sparse, BaseException):
            raise sparse
        if isinstance(dense, DenseUnavailableError) and not dense_required:
            return MadePoints(_points(records, sparse, None, NO_MODEL), whole=False)
        if isinstance(dense, BaseException):
            raise dense
        return MadePoints(_points(records, sparse, dense, fingerprint), whole=True)

    async def _dense(self, fingerprint: str, records: Sequence[SkillRecord]) -> list[list[float]]:
        texts = tuple(dense_text(r.skill.name, r.skill.description, r.skill.tags) for r in records)
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

    async def _sparse(self, records: Sequence[SkillRecord]) -> tuple[SparseVector, ...]:
        texts = tuple(lexical_text(r.skill.name, r.skill.description, r.skill.tags) for r in records)
        request = EmbedTexts(texts=texts, role=Role.DOCUMENT, dense=False, sparse=True)
        reply = await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)
        return reply.sparse or ()


def _points(
    records: Sequence[SkillRecord],
    sparse: Sequence[SparseVector],
    dense: Sequence[list[float]] | None,
    fingerprint: str,
) -> list[models.PointStruct]:
    points = []
    for number, (record, lexical) in enumerate(zip(records, sparse, strict=True)):
        vectors: dict[str, models.Vector] = {
            LEXICAL: models.SparseVector(indices=list(lexical.indices), values=list(lexical.values))
        }
        if dense is not None:
            vectors[DENSE] = dense[number]
        points.append(
            models.PointStruct(
                id=point_of(record.project, record.name), vector=vectors, payload=_payload(record, fingerprint)
            )
        )
    return points


def _payload(record: SkillRecord, fingerprint: str) -> dict[str, JsonValue]:
    skill = record.skill
    metadata: dict[str, JsonValue] = {
        "type": ToolType.SKILL.value,
        "version": skill.version,
        "digest": skill.digest,
        "license": skill.license,
        "actions": [entry.action for entry in skill.entry_points],
        "default_action": skill.default_action,
    }
    return {
        "project": skill.project,
        "tool_id": record.tool_id,
        "tool_type": ToolType.SKILL.value,
        "name": skill.name,
        "description": skill.description,
        "tags": list(skill.tags),
        "path": f"skills/{skill.name}",
        "metadata": metadata,
        "content_hash": content_hash(record, fingerprint),
        "indexed_at": datetime.now(UTC).isoformat(),
    }
