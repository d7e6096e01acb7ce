"""Points of knowledge."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from skillbus.common.bus.caller import Caller
from skillbus.contracts.scope import get_scope_key, list_ancestor_keys
from skillbus.indexer.adapters.bus_embedder import DocumentEmbedder
from skillbus.indexer.adapters.points.layout import BuiltPoints, EntryTexts, PointLayout
from skillbus.indexer.domain.index.ports import Key, hash_content
from skillbus.indexer.domain.knowledge import KnowledgeEntry
from skillbus.relevance.knowledge_text import (
    MEAN_TERMS,
    build_item_aside_text,
    build_item_dense_texts,
    build_item_lexical_text,
)
from skillbus.vectors.datasets import KNOWLEDGE

_LAYOUT: Final = PointLayout(
    KNOWLEDGE,
    id_field=None,
    keywords=("type", "tags", "source", "scope_fixed", "scope_above"),
    numbers=("valid_from", "valid_to"),
)
_ALWAYS_FROM: Final = -62135596800.0
"""Start of validity without a lower bound: the year 1, in seconds since 1970."""
_ALWAYS_TO: Final = 253402300800.0
"""End of validity without an upper bound: the end of the year 9999."""
_LONGEST: Final = 32_768
"""Longest text that the embedder accepts, in characters."""


class KnowledgePoints:
    """Builds points of knowledge items."""

    layout = _LAYOUT

    def __init__(self, caller: Caller) -> None:
        self._embedder = DocumentEmbedder(caller)

    def make_point_id(self, key: Key) -> str:
        """Return the id of the item. It is unique over all projects, and search identifies a candidate by it."""
        return key[1]

    async def build_points(
        self, fingerprint: str, entries: Sequence[KnowledgeEntry], *, dense_required: bool
    ) -> BuiltPoints:
        items = [entry.item for entry in entries]
        texts = EntryTexts(
            dense=[build_item_dense_texts(item.title, item.content) for item in items],
            lexical=tuple(build_item_lexical_text(item.title, item.content, item.tags)[:_LONGEST] for item in items),
            asides=tuple(build_item_aside_text(item.scope) for item in items),
            mean_terms=MEAN_TERMS,
        )
        vectors = await self._embedder.embed_entries(fingerprint, texts, dense_required=dense_required)
        payloads = [_build_payload(entry, vectors.fingerprint) for entry in entries]
        return vectors.build_points([self.make_point_id(entry.key) for entry in entries], payloads)


def _build_payload(entry: KnowledgeEntry, fingerprint: str) -> dict[str, JsonValue]:
    """Build the payload: fields for filters only. The content of a hit comes from the record."""
    item = entry.item
    return {
        "project": item.project,
        "item_id": item.id,
        "version": item.version,
        "type": item.type,
        "tags": list(item.tags),
        "source": item.source,
        "scope_fixed": get_scope_key(item.scope),
        "scope_above": list(list_ancestor_keys(item.scope)),
        "valid_from": _seconds(item.valid_from, _ALWAYS_FROM),
        "valid_to": _seconds(item.valid_to, _ALWAYS_TO),
        "content_hash": hash_content(entry, fingerprint),
    }


def _seconds(moment: datetime | None, open_end: float) -> float:
    return open_end if moment is None else moment.timestamp()
