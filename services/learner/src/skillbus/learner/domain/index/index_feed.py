"""What the indexer reads of the record, and what it tells it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from skillbus.contracts.learner.index import (
    KnowledgeDigestsListed,
    KnowledgeIndexed,
    KnowledgeItemDigest,
    KnowledgeKey,
    KnowledgeRead,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.learner.domain.message_size import fitting


class IndexedRecord(Protocol):
    """The record, for the index. Everything raises KnowledgeUnavailableError."""

    async def read(self, keys: Sequence[KnowledgeKey]) -> Sequence[KnowledgeItem]:
        """Those that are there, in the order of the keys, whatever their status."""
        ...

    async def digests(self, wanted: ListKnowledgeDigests) -> Sequence[KnowledgeItemDigest]:
        """A page of active items, in the order of project and id."""
        ...

    async def indexed(self, refs: Sequence[KnowledgeRef], at: datetime) -> None:
        """The index has these, as was said at this moment: in any order, and any number of times."""
        ...


@dataclass(frozen=True, slots=True)
class IndexFeed:
    """Answers the indexer, and keeps what it says."""

    record: IndexedRecord
    told: Callable[[Sequence[KnowledgeRef]], None]
    """Called once the record has it: somebody may wait for it."""
    now: Callable[[], datetime]

    async def read(self, wanted: ReadKnowledge) -> KnowledgeRead:
        items = await self.record.read(wanted.keys)
        fit = fitting(items)
        left = tuple(KnowledgeKey(project=item.project, id=item.id) for item in items[len(fit) :])
        return KnowledgeRead(items=tuple(fit), left=left)

    async def digests(self, wanted: ListKnowledgeDigests) -> KnowledgeDigestsListed:
        items = await self.record.digests(wanted)
        last = items[-1] if len(items) == wanted.limit else None
        return KnowledgeDigestsListed(items=tuple(items), next=last and KnowledgeKey(project=last.project, id=last.id))

    async def indexed(self, said: KnowledgeIndexed) -> None:
        await self.record.indexed(said.items, self.now())
        self.told(said.items)
