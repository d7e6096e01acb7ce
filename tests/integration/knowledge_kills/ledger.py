"""Acknowledged writes of a load, and writes with an unknown outcome."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus


@dataclass(frozen=True, slots=True)
class Said:
    """A version of an item as its writer knows it."""

    title: str
    content: str
    status: KnowledgeStatus


def said_of(item: KnowledgeItem) -> Said:
    return Said(item.title, item.content, item.status)


@dataclass
class Ledger:
    said: dict[str, dict[int, Said]] = field(default_factory=dict)
    """Acknowledged versions, by item and version."""
    unsure: Counter[str] = field(default_factory=Counter)
    """Number of writes of each item without a reply: each made a version or none."""
    batches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Items that were always imported together, by the first external id."""
    ghosts: list[str] = field(default_factory=list)
    """Items that were found after their archiving was acknowledged."""
    lost: list[str] = field(default_factory=list)
    """Items that were not found after the reply that the index has them."""
    answered: int = 0
    over: bool = False
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def acknowledge(self, item: str, version: int, said: Said) -> None:
        self.said.setdefault(item, {})[version] = said
        self.answered += 1
        self._more.set()

    def newest(self, item: str) -> tuple[int, Said]:
        version = max(self.said[item])
        return version, self.said[item][version]

    async def until(self, answered: int, within_s: float) -> None:
        """Wait until `answered` writes were acknowledged."""
        async with asyncio.timeout(within_s):
            while self.answered < answered:
                self._more.clear()
                await self._more.wait()
