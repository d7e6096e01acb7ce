"""A record of knowledge and an index of it in memory, each call of which a test can hook into."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.index import KnowledgeItemDigest
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key, hash_content
from skillbus.indexer.domain.knowledge import KnowledgeEntries, KnowledgeEntry, KnowledgeFollower, KnowledgeReconciler

from ..switching.world import A, Calls, FakeCollections, FakeModels, FakeSwitches, collection

ACTIVE, ARCHIVED, PENDING = KnowledgeStatus.ACTIVE, KnowledgeStatus.ARCHIVED, KnowledgeStatus.PENDING


def item(item_id: str, version: int = 1, status: KnowledgeStatus = ACTIVE) -> KnowledgeItem:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return KnowledgeItem(
        id=item_id,
        type="business_rule",
        title=item_id,
        content=f"Version {version}.",
        status=status,
        version=version,
        digest=f"digest of {version}",
        created_at=now,
        updated_at=now,
    )


def key(item_id: str) -> Key:
    return "default", item_id


@dataclass
class FakeRecord:
    calls: Calls
    items: dict[Key, KnowledgeItem] = field(default_factory=dict)
    indexed: dict[Key, int] = field(default_factory=dict)
    away: bool = False

    def has(self, *items: KnowledgeItem) -> None:
        self.items.update({(one.project, one.id): one for one in items})

    async def check_available(self) -> None:
        if self.away:
            raise RequestError(ErrorCode.UNAVAILABLE, "the learner is away")

    async def load_items(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        await self.check_available()
        at = await self.calls.begin()
        found = [self.items[key] for key in keys if key in self.items]
        await self.calls.end(at)
        return found

    async def iterate_digests(self, project: str | None = None) -> AsyncIterator[KnowledgeItemDigest]:
        await self.check_available()
        at = await self.calls.begin()
        for (of_project, item_id), one in list(self.items.items()):
            if one.status is ACTIVE and project in {None, of_project}:
                indexed = self.indexed.get((of_project, item_id), 0) >= one.version
                yield KnowledgeItemDigest(
                    project=of_project, id=item_id, version=one.version, digest=one.digest, indexed=indexed
                )
        await self.calls.end(at)


@dataclass
class FakeAnnouncer:
    record: FakeRecord
    said: list[tuple[str, int]] = field(default_factory=list)

    async def announce_indexed(self, items: Sequence[KnowledgeRef]) -> None:
        for ref in items:
            self.said.append((ref.id, ref.version))
            known = self.record.indexed.get((ref.project, ref.id), 0)
            self.record.indexed[ref.project, ref.id] = max(known, ref.version)


class World:
    """A record, and the index that one or more replicas write."""

    def __init__(self, *items: KnowledgeItem, opened: bool = True) -> None:
        self.calls = Calls()
        self.record = FakeRecord(self.calls)
        self.record.has(*items)
        self.collections = FakeCollections(self.calls)
        if opened:
            self.collections.points[collection(A)] = {}
            self.collections.alias = collection(A)
        self.announcer = FakeAnnouncer(self.record)
        self.wanted_comparisons = 0
        self.follower, self.reconciler = self.replica()

    def replica(self) -> tuple[KnowledgeFollower, KnowledgeReconciler]:
        """Another process on the same record and index."""
        entries, switches = KnowledgeEntries(self.record), FakeSwitches(self.calls)
        index: Index[KnowledgeEntry] = Index(
            "knowledge",
            self.collections,
            entries,
            switches,
            FakeModels(),
            on_model_back=lambda: None,
            on_write_failed=lambda: None,
        )
        follower = KnowledgeFollower(index, self.record, self.announcer, self._compare_soon)
        return follower, KnowledgeReconciler(index, self.record, follower, self.announcer)

    def _compare_soon(self) -> None:
        self.wanted_comparisons += 1

    def assert_agrees(self) -> None:
        """The index is what the record says, and the learner knows."""
        entries = [KnowledgeEntry(one) for one in self.record.items.values() if one.status is ACTIVE]
        wanted = {entry.key: hash_content(entry, A.fingerprint) for entry in entries}
        assert self.collections.points[collection(A)] == wanted
        assert all(self.record.indexed[entry.key] == entry.item.version for entry in entries)
