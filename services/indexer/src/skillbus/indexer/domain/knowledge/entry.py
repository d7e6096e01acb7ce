"""Items of knowledge as the index knows them, and the port to their record."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.learner.index import KnowledgeItemDigest
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.indexer.domain.index.ports import Digested, Key


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """An item that is to be found, whole."""

    item: KnowledgeItem

    @property
    def key(self) -> Key:
        """Whose entry it is."""
        return self.item.project, self.item.id

    @property
    def digest(self) -> str:
        """Of all that the point is made from, the version among it."""
        return _digest(self.item.version, self.item.digest)


@dataclass(frozen=True, slots=True)
class KnowledgeDigest:
    """An item that is to be found, for a comparison."""

    item: KnowledgeItemDigest

    @property
    def key(self) -> Key:
        """Whose it is."""
        return self.item.project, self.item.id

    @property
    def digest(self) -> str:
        """As that of the entry."""
        return _digest(self.item.version, self.item.digest)


class KnowledgeRecord(Protocol):
    """Where knowledge is recorded. Methods raise RequestError when that cannot be had."""

    async def read(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """Those of them that are there, whatever their status."""
        ...

    async def check(self) -> None:
        """Find out whether it can be had."""
        ...

    def digests(self, project: str | None = None) -> AsyncIterator[KnowledgeItemDigest]:
        """Every active item, or those of a project."""
        ...


@dataclass(frozen=True, slots=True)
class KnowledgeEntries:
    """The entries of all items that are active."""

    record: KnowledgeRecord

    async def check(self) -> None:
        await self.record.check()

    async def all(self, project: str | None = None) -> AsyncIterator[Digested]:
        async for item in self.record.digests(project):
            yield KnowledgeDigest(item)

    async def of(self, keys: Sequence[Key]) -> Sequence[KnowledgeEntry]:
        return entries_of(await self.record.read(keys))


def entries_of(items: Sequence[KnowledgeItem]) -> list[KnowledgeEntry]:
    """Of those that are to be found."""
    return [KnowledgeEntry(item) for item in items if item.status is KnowledgeStatus.ACTIVE]


def _digest(version: int, digest: str) -> str:
    return f"{version} {digest}"
