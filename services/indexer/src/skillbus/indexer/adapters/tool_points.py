"""Points of tools."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from skillbus.common.bus.caller import Caller
from skillbus.indexer.adapters.bus_embedder import TextVectors
from skillbus.indexer.adapters.points import Layout, MadePoints, Texts
from skillbus.indexer.domain.catalogue.entry import ToolEntry, skill_name_of
from skillbus.indexer.domain.index.ports import Key, content_hash
from skillbus.relevance.tool_text import (
    build_tool_aside_text,
    build_tool_dense_text,
    build_tool_lexical_text,
    list_arguments,
)
from skillbus.vectors import point_id
from skillbus.vectors.datasets import TOOLS

_LAYOUT: Final = Layout(TOOLS, "tool_id", ("tool_type", "tags", "name", "source"))


def point_of(project: str, tool_id: str) -> str:
    """The id of a tool's point."""
    return point_id(project, tool_id)


class ToolPoints:
    """Makes points of tools."""

    layout = _LAYOUT

    def __init__(self, caller: Caller) -> None:
        self._vectors = TextVectors(caller)

    def point_of(self, key: Key) -> str:
        return point_of(*key)

    async def of(self, fingerprint: str, entries: Sequence[ToolEntry], *, dense_required: bool) -> MadePoints:
        texts = Texts(
            dense=[(build_tool_dense_text(e.name, e.description, e.tags, e.parameters),) for e in entries],
            lexical=tuple(
                build_tool_lexical_text(e.name, e.description, e.tags, e.parameters, e.examples) for e in entries
            ),
            asides=tuple(build_tool_aside_text(e.provider, e.parameters) for e in entries),
        )
        vectors = await self._vectors.of(fingerprint, texts, dense_required=dense_required)
        payloads = [_payload(entry, vectors.fingerprint) for entry in entries]
        return vectors.points([point_of(*entry.key) for entry in entries], payloads)


def _payload(entry: ToolEntry, fingerprint: str) -> dict[str, JsonValue]:
    """What is stored beside the vectors: what is filtered by, ranked by and shown."""
    arguments = list(list_arguments(entry.parameters))
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
