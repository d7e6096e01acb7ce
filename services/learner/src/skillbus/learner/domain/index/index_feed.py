"""Answers the indexer's requests, and records which versions the index has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.common.paging import cut_page
from skillbus.contracts.learner.index import (
    KnowledgeDigestsListed,
    KnowledgeItemDigest,
    KnowledgeKey,
    KnowledgeRead,
    ListKnowledgeDigests,
    ReadKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.learner.domain.item.values import measure_item


class IndexRecord(Protocol):
    """The record, for the indexer. Every method raises KnowledgeUnavailableError."""

    async def read_items(self, keys: Sequence[KnowledgeKey]) -> Sequence[KnowledgeItem]:
        """Return the items that exist, of any status, in the order of the keys."""

    async def list_digests(self, wanted: ListKnowledgeDigests) -> Sequence[KnowledgeItemDigest]:
        """Return a page of active items, ordered by project and id."""

    async def mark_indexed(self, refs: Sequence[KnowledgeRef]) -> None:
        """Record that the index has these versions. Calls may repeat and come in any order."""


@dataclass(frozen=True, slots=True)
class IndexFeed:
    record: IndexRecord

    async def read_items(self, wanted: ReadKnowledge) -> KnowledgeRead:
        items = await self.record.read_items(wanted.keys)
        fit = cut_page(items, measure_item)
        left = tuple(KnowledgeKey(project=item.project, id=item.id) for item in items[len(fit) :])
        return KnowledgeRead(items=tuple(fit), left=left)

    async def list_digests(self, wanted: ListKnowledgeDigests) -> KnowledgeDigestsListed:
        items = await self.record.list_digests(wanted)
        last = items[-1] if len(items) == wanted.limit else None
        return KnowledgeDigestsListed(items=tuple(items), next=last and KnowledgeKey(project=last.project, id=last.id))
