"""Points of tools."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.common.bus.caller import Caller
from skillbus.indexer.adapters.bus_embedder import DocumentEmbedder
from skillbus.indexer.adapters.points.layout import BuiltPoints, EntryTexts, PointLayout
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.skill import parse_skill_id
from skillbus.indexer.domain.index.ports import Key, hash_content
from skillbus.relevance.tool_text import (
    build_tool_aside_text,
    build_tool_dense_text,
    build_tool_lexical_text,
    list_arguments,
)
from skillbus.vectors import point_id
from skillbus.vectors.datasets import TOOLS

_LAYOUT: Final = PointLayout(TOOLS, "tool_id", ("tool_type", "tags", "name", "source"))


class ToolPoints:
    """Builds points of tools."""

    layout = _LAYOUT

    def __init__(self, caller: Caller) -> None:
        self._embedder = DocumentEmbedder(caller)

    def make_point_id(self, key: Key) -> str:
        return point_id(*key)

    async def build_points(
        self, fingerprint: str, entries: Sequence[ToolEntry], *, dense_required: bool
    ) -> BuiltPoints:
        texts = EntryTexts(
            dense=[(build_tool_dense_text(e.name, e.description, e.tags, e.parameters),) for e in entries],
            lexical=tuple(
                build_tool_lexical_text(e.name, e.description, e.tags, e.parameters, e.examples) for e in entries
            ),
            asides=tuple(build_tool_aside_text(e.provider, e.parameters) for e in entries),
        )
        vectors = await self._embedder.embed_entries(fingerprint, texts, dense_required=dense_required)
        payloads = [_build_payload(entry, vectors.fingerprint) for entry in entries]
        return vectors.build_points([point_id(*entry.key) for entry in entries], payloads)


def _build_payload(entry: ToolEntry, fingerprint: str) -> dict[str, JsonValue]:
    """Build the payload: fields for filters, for ranking and for the hit."""
    arguments = list(list_arguments(entry.parameters))
    skill = parse_skill_id(entry.tool_id)
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
        # Text: the store sorts the keys of objects, and models read the parameters in their order.
        **({"functions": to_json(entry.functions).decode()} if entry.functions else {}),
        "metadata": {**entry.metadata, "type": entry.tool_type.value},
        "content_hash": hash_content(entry, fingerprint),
        "indexed_at": datetime.now(UTC).isoformat(),
    }
