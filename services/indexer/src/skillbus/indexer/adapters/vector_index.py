"""The index in the vector store: one point a tool, in the collection of the model that embedded it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic import JsonValue
from qdrant_client import models

from skillbus.common.bus.caller import Caller
from skillbus.contracts.embedder import EMBED_TEXTS, EmbedTexts, Role, TextsEmbedded
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import MSGPACK
from skillbus.contracts.retriever import ToolType
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.record import Catalogue, SkillRecord, tool_id_of
from skillbus.indexer.domain.tool_index import IndexedTool, IndexState
from skillbus.indexer.domain.tool_text import dense_text, lexical_text
from skillbus.vectors import (
    DENSE,
    LEXICAL,
    CollectionMissing,
    CollectionSpec,
    VectorStore,
    VectorStoreError,
    point_id,
)
from skillbus.vectors.tools import ALIAS, NO_MODEL, collection_of, model_of

_BATCH: Final = 64
_PAYLOAD_VERSION: Final = 1
"""Raised when what a point holds is computed otherwise, so that all points are made again."""

log = structlog.get_logger(__name__)


class VectorIndex:
    """Writes tools to the collection behind the alias `tools`, and makes a new one when the default model changes."""

    def __init__(self, store: VectorStore, caller: Caller, catalogue: Catalogue) -> None:
        self._store = store
        self._caller = caller
        self._catalogue = catalogue
        self._live: str | None = None
        self._opening = asyncio.Lock()

    async def put(self, records: Sequence[SkillRecord]) -> None:
        with self._writing():
            await self._write(await self._collection(), records)

    async def remove(self, project: str, name: str) -> None:
        await self.remove_points([_point(project, name)])

    async def remove_points(self, points: Sequence[str]) -> None:
        with self._writing():
            await self._store.delete(await self._collection(), points)

    async def tools(self) -> AsyncIterator[IndexedTool]:
        with self._writing():
            collection = await self._collection()
        offset: str | None = None
        while True:
            with self._writing():
                records, offset = await self._store.scroll(
                    collection, offset=offset, with_payload=("project", "name", "content_hash")
                )
            for record in records:
                payload = record.payload or {}
                yield IndexedTool(
                    str(record.id), payload.get("project", ""), payload.get("name", ""), payload.get("content_hash", "")
                )
            if offset is None:
                return

    def content_hash(self, record: SkillRecord) -> str:
        return _content_hash(record, model_of(self._live) if self._live else None)

    async def state(self) -> IndexState:
        with _unavailable_as_index_error():
            live = await self._store.resolve_alias(ALIAS)
            points = await self._store.count(live) if live else 0
        return IndexState(live, model_of(live) if live else None, points)

    async def _collection(self) -> str:
        """The live collection; made and filled first when there is none of the default model.

        One without a model is looked at again each time, as a model that was late may be there by now.
        """
        async with self._opening:
            if self._live is None or model_of(self._live) == NO_MODEL:
                self._live = await self._open_live()
            return self._live

    @contextmanager
    def _writing(self) -> Generator[None]:
        with _unavailable_as_index_error():
            try:
                yield
            except CollectionMissing:
                self._live = None  # a store that came back empty: the next try makes and fills it
                raise

    async def _open_live(self) -> str:
        probe = await self._embed(["skillbus"], dense=True)
        current = await self._store.resolve_alias(ALIAS)
        if probe.model is None and current is not None:
            return current  # without a model new tools are indexed by their words; the reconciler adds the vectors
        name = collection_of(probe.model.fingerprint if probe.model else NO_MODEL)
        if current == name:
            return current
        dim = probe.model.dimensions if probe.model else 1
        await self._store.ensure_collection(name, CollectionSpec(dim=dim))
        records = await self._catalogue.all()
        for at in range(0, len(records), _BATCH):
            await self._write(name, records[at : at + _BATCH])
        await self._store.switch_aliases({ALIAS: name})
        log.info("tools_collection_live", collection=name, tools=len(records), before=current)
        return name

    async def _write(self, collection: str, records: Sequence[SkillRecord]) -> None:
        for at in range(0, len(records), _BATCH):
            await self._store.upsert(collection, await self._points(collection, records[at : at + _BATCH]))

    async def _points(self, collection: str, records: Sequence[SkillRecord]) -> list[models.PointStruct]:
        skills = [record.skill for record in records]
        dense = await self._embed([dense_text(s.name, s.description, s.tags) for s in skills], dense=True)
        lexical = await self._embed([lexical_text(s.name, s.description, s.tags) for s in skills], dense=False)
        fingerprint = dense.model.fingerprint if dense.model else NO_MODEL
        rows = dense.dense.rows() if dense.dense and fingerprint == model_of(collection) else None
        points = []
        for number, record in enumerate(records):
            sparse = (lexical.sparse or ())[number]
            vectors: dict[str, models.Vector] = {
                LEXICAL: models.SparseVector(indices=list(sparse.indices), values=list(sparse.values))
            }
            if rows is not None:
                vectors[DENSE] = rows[number]
            payload = _payload(record, fingerprint if rows is not None else NO_MODEL)
            points.append(models.PointStruct(id=_point(record.project, record.name), vector=vectors, payload=payload))
        return points

    async def _embed(self, texts: list[str], *, dense: bool) -> TextsEmbedded:
        """Dense vectors, or why there are none, and no error; else sparse vectors."""
        request = EmbedTexts(texts=tuple(texts), role=Role.DOCUMENT, dense=dense, sparse=True)
        return await self._caller.call(EMBED_TEXTS, request, content_type=MSGPACK)


@contextmanager
def _unavailable_as_index_error() -> Generator[None]:
    try:
        yield
    except (VectorStoreError, RequestError) as error:
        raise IndexUnavailableError(str(error)) from error


def _point(project: str, name: str) -> str:
    return point_id(project, tool_id_of(name))


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
        "content_hash": _content_hash(record, fingerprint),
        "indexed_at": datetime.now(UTC).isoformat(),
    }


def _content_hash(record: SkillRecord, fingerprint: str | None) -> str:
    """Of all that a point is made from: the same hash, the same point."""
    skill = record.skill
    made_from = [_PAYLOAD_VERSION, fingerprint, skill.digest, skill.name, skill.description, list(skill.tags)]
    return hashlib.sha256(json.dumps(made_from, ensure_ascii=False).encode()).hexdigest()[:32]
