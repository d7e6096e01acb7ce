"""The index of commands in the vector store."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import TypeAdapter

from skillbus.contracts.indexer.commands import CommandArgument
from skillbus.relevance.command_text import describe_meaning
from skillbus.retriever.adapters.live_collection import LiveCollection, as_unavailable, has_any
from skillbus.retriever.domain.commands.ports import IndexedCommand, WantedCommands
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex
from skillbus.vectors import VectorSearch, models, point_id
from skillbus.vectors.datasets import COMMANDS

_PAYLOAD: Final = ("command_id", "capability", "command", "descriptions", "arguments")
_ARGUMENTS: Final = TypeAdapter(tuple[CommandArgument, ...])


class VectorCommands(LiveCollection):
    """A `CommandIndex`: the collection behind the alias `commands`."""

    def __init__(self, store: VectorSearch) -> None:
        super().__init__(store, COMMANDS)

    async def find_candidates(
        self, live: LiveIndex, queries: Sequence[EmbeddedQuery], wanted: WantedCommands, count: int
    ) -> Sequence[Sequence[IndexCandidate]]:
        return await self._search_each(live, queries, [make_command_filter(wanted)], count)

    async def load_commands(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, IndexedCommand]:
        if not points:
            return {}
        with as_unavailable():
            records = await self._store.retrieve(live.collection, points, with_payload=_PAYLOAD)
        return {record.id: _make_command(record) for record in records}


def make_command_filter(wanted: WantedCommands) -> models.Filter:
    """Return the filter of the wanted commands."""
    any_of: list[models.Condition] = []
    if wanted.capabilities:
        any_of.append(has_any("capability", wanted.capabilities))
    if wanted.command_ids:
        points = [point_id(wanted.project, command) for command in wanted.command_ids]
        any_of.append(models.HasIdCondition(has_id=points))
    return models.Filter(must=[has_any("project", (wanted.project,))], should=any_of or None)


def _make_command(record: models.Record) -> IndexedCommand:
    payload = record.payload or {}
    description: Mapping[str, str] = payload["descriptions"]
    capability, command = payload["capability"], payload["command"]
    return IndexedCommand(
        id=payload["command_id"],
        capability=capability,
        command=command,
        description=description,
        arguments=_ARGUMENTS.validate_json(payload.get("arguments") or "[]"),
        meaning=describe_meaning(description, capability, command),
    )
