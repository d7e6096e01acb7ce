"""Neighbours of learned items, found by the retriever."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillbus.common.bus.caller import Caller
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.retriever.nearest_knowledge import (
    FIND_NEAREST_KNOWLEDGE,
    MAX_NEAREST_TEXTS,
    FindNearestKnowledge,
    NearestText,
)

_TEXT_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class BusNeighbours:
    """A `NeighbourFinder` over the bus."""

    caller: Caller

    async def find_neighbours(self, project: str, items: Sequence[LearnedItem]) -> list[list[str]]:
        found = list[list[str]]()
        for at in range(0, len(items), MAX_NEAREST_TEXTS):
            texts = tuple(map(_make_text, items[at : at + MAX_NEAREST_TEXTS]))
            request = FindNearestKnowledge(project=project, texts=texts)
            reply = await self.caller.call(FIND_NEAREST_KNOWLEDGE, request)
            found += [[one.id for one in near] for near in reply.neighbours]
        return found


def _make_text(item: LearnedItem) -> NearestText:
    return NearestText(text=f"{item.title}\n{item.content}"[:_TEXT_CHARACTERS], scope=item.scope or None)
