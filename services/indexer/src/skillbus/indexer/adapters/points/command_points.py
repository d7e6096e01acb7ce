"""Points of commands."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.common.bus.caller import Caller
from skillbus.indexer.adapters.bus_embedder import DocumentEmbedder
from skillbus.indexer.adapters.points.layout import BuiltPoints, EntryTexts, PointLayout
from skillbus.indexer.domain.home.command import CommandRecord
from skillbus.indexer.domain.index.ports import Key, hash_content
from skillbus.relevance.command_text import (
    build_command_aside_text,
    build_command_dense_texts,
    build_command_lexical_text,
)
from skillbus.vectors import point_id
from skillbus.vectors.datasets import COMMANDS

_LAYOUT: Final = PointLayout(COMMANDS, "command_id", ("capability",))


class CommandPoints:
    """Builds points of commands."""

    layout = _LAYOUT

    def __init__(self, caller: Caller) -> None:
        self._embedder = DocumentEmbedder(caller)

    def make_point_id(self, key: Key) -> str:
        return point_id(*key)

    async def build_points(
        self, fingerprint: str, entries: Sequence[CommandRecord], *, dense_required: bool
    ) -> BuiltPoints:
        commands = [entry.command for entry in entries]
        texts = EntryTexts(
            dense=[build_command_dense_texts(c.description) for c in commands],
            lexical=tuple(build_command_lexical_text(c.description, c.capability.id, c.command.id) for c in commands),
            asides=tuple(build_command_aside_text(c.capability.id, c.command.id) for c in commands),
        )
        vectors = await self._embedder.embed_entries(fingerprint, texts, dense_required=dense_required)
        payloads = [_build_payload(entry, vectors.fingerprint) for entry in entries]
        return vectors.build_points([point_id(*entry.key) for entry in entries], payloads)


def _build_payload(entry: CommandRecord, fingerprint: str) -> dict[str, JsonValue]:
    """Build the payload: all of the command, so that a search needs no second request."""
    command = entry.command
    return {
        "project": entry.project,
        "command_id": command.id,
        "capability": command.capability.id,
        "command": command.command.id,
        "descriptions": dict(command.description),
        # Text: the store sorts the keys of objects.
        "arguments": to_json(command.arguments).decode(),
        "content_hash": hash_content(entry, fingerprint),
    }
