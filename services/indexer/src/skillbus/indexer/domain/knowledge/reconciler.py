"""Reconciler of knowledge: makes record and index agree at start and every few minutes."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import structlog

from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.differences import find_lasting_differences
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, Key
from skillbus.indexer.domain.knowledge.entry import (
    KnowledgeEntries,
    KnowledgeEntry,
    KnowledgeEntryDigest,
    LearnerRecord,
)
from skillbus.indexer.domain.knowledge.follower import KnowledgeAnnouncer, KnowledgeFollower
from skillbus.indexer.domain.skill.reconciler import NO_WAIT, IndexDrift

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _ObservedEntries:
    """The entries, which also note the items that the record believes are not indexed."""

    record: LearnerRecord
    unindexed: dict[Key, KnowledgeRef] = field(default_factory=dict)

    async def check_available(self) -> None:
        await self.record.check_available()

    async def iterate_entries(self, project: str | None = None) -> AsyncIterator[Digested]:
        async for item in self.record.iterate_digests(project):
            entry = KnowledgeEntryDigest(item)
            if not item.indexed:
                self.unindexed[entry.key] = entry.ref
            yield entry

    async def load_entries(self, keys: Sequence[Key]) -> Sequence[KnowledgeEntry]:
        return await KnowledgeEntries(self.record).load_entries(keys)


@dataclass(frozen=True, slots=True)
class KnowledgeReconciler:
    """Repairs the index after lost events, and repeats reports that the learner has not received."""

    index: Index[KnowledgeEntry]
    record: LearnerRecord
    follower: KnowledgeFollower
    announcer: KnowledgeAnnouncer

    async def compare_index(self) -> IndexDrift:
        """Index the items that are missing or stale, and remove points without an item.

        Items that the index has and the record believes are not indexed are reported again.

        Raises:
            IndexUnavailableError, RequestError: Not possible now.
        """
        live = await self.index.open_if_needed()
        if live is None:
            return IndexDrift()
        observed = _ObservedEntries(self.record)
        found, differing = await find_lasting_differences(self.index.collections, observed, live, NO_WAIT)
        await write_batches(differing.keys, self.follower.follow_items)
        reported = set(found.keys)  # by the follower, now or while it handled the event of the change
        unreported = [ref for key, ref in observed.unindexed.items() if key not in reported]
        if unreported:
            await self.announcer.announce_indexed(unreported)
        if differing or unreported:
            indexed, removed = len(differing.unwritten), len(differing.ghosts)
            log.info("knowledge_drift_repaired", indexed=indexed, removed=removed, reported=len(unreported))
        return IndexDrift(len(differing.unwritten), len(differing.ghosts))
