"""Knowledge: its entries in the index, and the follower and the reconciler that keep the index at the record.

The learner keeps the record, and learns from events how far the index is.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from skillbus.common.keyed_locks import KeyedLocks
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.index import KnowledgeItemDigest
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef, KnowledgeStatus
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.drift import repair_drift
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, Key

ATTEMPTS: Final = 3
"""Attempts to follow an event, within some 6 s."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """A complete item that search should find."""

    item: KnowledgeItem

    @property
    def key(self) -> Key:
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
        return self.item.project, self.item.id

    @property
    def digest(self) -> str:
        return f"{self.item.version} {self.item.digest}"


class LearnerRecord(Protocol):
    """The record of knowledge, kept by the learner. Methods raise RequestError when it is unavailable."""

    async def load_items(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """Return the items that exist, in any status."""

    async def check_available(self) -> None:
        """Raise RequestError if the record is unavailable."""

    def iterate_digests(self, project: str | None = None) -> AsyncIterator[KnowledgeItemDigest]:
        """Yield the digests of all active items of a project or of all projects."""


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


class KnowledgeAnnouncer(Protocol):
    """Reports the versions that the index has."""

    async def announce_indexed(self, items: Sequence[KnowledgeRef]) -> None:
        """Report that the index has these versions, or has removed items that search should not find.

        Returns when the event is stored. Raises RequestError when the bus is unavailable.
        """


@dataclass(frozen=True, slots=True)
class KnowledgeFollower:
    """Brings the index to the state of the record, item by item."""

    index: Index[KnowledgeEntry]
    record: LearnerRecord
    announcer: KnowledgeAnnouncer
    compare_soon: Callable[[], None]
    """Makes the comparison of record and index run soon."""
    locks: KeyedLocks[Key] = field(default_factory=KeyedLocks)

    async def follow_items(self, keys: Sequence[Key]) -> None:
        """Index items as they are recorded, or remove them, and report it.

        Changes of one item are followed one after the other. Side by side, search would find the later version, then
        the earlier one, then the later one again. Raises IndexUnavailableError, RequestError; a repetition is harmless.
        """
        wanted = sorted(set(keys))
        async with self.locks.hold(*wanted):
            seen = await self._sync(wanted)
        if seen:
            refs = [KnowledgeRef(project=item.project, id=item.id, version=item.version) for item in seen]
            await self.announcer.announce_indexed(refs)

    async def follow_event(self, keys: Sequence[Key], attempt: int) -> None:
        """Follow an event as `follow_items`; after a failure of the last attempt leave its items to the comparison.

        The comparison is repeated until it succeeds, every 30 s at the latest, and misses nothing. A redelivered event
        would come after 2 and 10 minutes, occupy one of the thousand places of unacknowledged events, and end as a
        dead letter.
        """
        try:
            await self.follow_items(keys)
        except (IndexUnavailableError, RequestError) as error:
            if attempt < ATTEMPTS:
                raise
            log.info("changes_left_to_comparison", items=len(keys), reason=str(error))
            self.compare_soon()

    async def _sync(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """Index the items that changed. Return the items as they were when the index last agreed with them."""
        seen = dict[Key, KnowledgeItem]()

        async def load(some: Sequence[Key]) -> Sequence[KnowledgeEntry]:
            items = await self.record.load_items(some)
            seen.update({(item.project, item.id): item for item in items})
            return make_entries(items)

        known = await load(keys)
        current = await self.index.find_current(known)
        changed = [entry for entry in known if entry.key not in current]
        await self.index.sync_entries([key for key in keys if key not in current], changed, load=load)
        return list(seen.values())


@dataclass(frozen=True, slots=True)
class _ObservedEntries(KnowledgeEntries):
    """The entries, which also note the items that the record believes are not indexed."""

    unindexed: dict[Key, KnowledgeRef] = field(default_factory=dict)

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[Digested]:
        async for item in self.record.iterate_digests(project):
            entry = KnowledgeEntryDigest(item)
            if not item.indexed:
                ref = KnowledgeRef(project=item.project, id=item.id, version=item.version)
                self.unindexed[entry.key] = ref
            yield entry


@dataclass(frozen=True, slots=True)
class KnowledgeReconciler:
    """Repairs the index after lost events, and repeats reports that the learner has not received."""

    index: Index[KnowledgeEntry]
    record: LearnerRecord
    follower: KnowledgeFollower
    announcer: KnowledgeAnnouncer

    async def compare_index(self) -> None:
        """Index the items that are missing or stale, and remove points without an item.

        Items that the index has and the record believes are not indexed are reported again.
        Raises IndexUnavailableError, RequestError.
        """
        live = await self.index.open_if_needed()
        if live is None:
            return
        observed = _ObservedEntries(self.record)
        found, differing = await repair_drift(self.index, observed, live, self.follower.follow_items)
        reported = set(found.keys)  # by the follower, now or while it handled the event of the change
        unreported = [ref for key, ref in observed.unindexed.items() if key not in reported]
        if unreported:
            await self.announcer.announce_indexed(unreported)
        if differing or unreported:
            indexed, removed = len(differing.unwritten), len(differing.ghosts)
            log.info("knowledge_drift_repaired", indexed=indexed, removed=removed, reported=len(unreported))
