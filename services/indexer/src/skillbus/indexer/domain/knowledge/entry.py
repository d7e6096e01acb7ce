"""Entries of the knowledge index, and the port to the record of knowledge."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.learner.index import KnowledgeItemDigest
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.indexer.domain.index.ports import Digested, Key


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """A complete item that search should find."""

    item: KnowledgeItem

    @property
    def key(self) -> Key:
        """Project and id."""
        return self.item.project, self.item.id

    @property
    def digest(self) -> str:
        """Digest of everything that the point is made from, including the version."""
        return f"{self.item.version} {self.item.digest}"


@dataclass(frozen=True, slots=True)
class KnowledgeEntryDigest:
    """Key and digest of an item that search should find, for comparisons."""

    item: KnowledgeItemDigest

    @property
    def key(self) -> Key:
        """Project and id."""
        return self.item.project, self.item.id

    @property
    def digest(self) -> str:
        """Digest of the entry."""
        return f"{self.item.version} {self.item.digest}"

    @property
    def ref(self) -> KnowledgeRef:
        """Item at its version."""
        return KnowledgeRef(project=self.item.project, id=self.item.id, version=self.item.version)


class LearnerRecord(Protocol):
    """The record of knowledge, kept by the learner. Methods raise RequestError when it is unavailable."""

    async def load_items(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """Return the items that exist, in any status."""
        ...

    async def check_available(self) -> None:
        """Raise RequestError if the record is unavailable."""
        ...

    def iterate_digests(self, project: str | None = None) -> AsyncIterator[KnowledgeItemDigest]:
        """Yield the digests of all active items of a project or of all projects."""
        ...


@dataclass(frozen=True, slots=True)
class KnowledgeEntries:
    """Entries of all active items."""

    record: LearnerRecord

    async def check_available(self) -> None:
        await self.record.check_available()

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[Digested]:
        async for item in self.record.iterate_digests(project):
            yield KnowledgeEntryDigest(item)

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[KnowledgeEntry]:
        return make_entries(await self.record.load_items(keys))


def make_entries(items: Sequence[KnowledgeItem]) -> list[KnowledgeEntry]:
    """Return the entries of the items that are active."""
    return [KnowledgeEntry(item) for item in items if item.status is KnowledgeStatus.ACTIVE]
