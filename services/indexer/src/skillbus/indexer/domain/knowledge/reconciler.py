"""The record of knowledge and its index made to agree: at start and every few minutes."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import structlog

from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.index.differences import lasting_differences
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, Key
from skillbus.indexer.domain.knowledge.entry import KnowledgeDigest, KnowledgeEntries, KnowledgeEntry, KnowledgeRecord
from skillbus.indexer.domain.knowledge.follower import KnowledgeAnnouncer, KnowledgeFollower
from skillbus.indexer.domain.skill.reconciler import AT_ONCE, Drift

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Noting:
    """The entries, and which of them the record thinks that the index lacks."""

    record: KnowledgeRecord
    unindexed: dict[Key, KnowledgeRef] = field(default_factory=dict)

    async def check(self) -> None:
        await self.record.check()

    async def all(self, project: str | None = None) -> AsyncIterator[Digested]:
        async for item in self.record.digests(project):
            entry = KnowledgeDigest(item)
            if not item.indexed:
                self.unindexed[entry.key] = KnowledgeRef(project=item.project, id=item.id, version=item.version)
            yield entry

    async def of(self, keys: Sequence[Key]) -> Sequence[KnowledgeEntry]:
        return await KnowledgeEntries(self.record).of(keys)


@dataclass(frozen=True, slots=True)
class KnowledgeReconciler:
    """Makes good for changes that were not heard, and for what was said and not heard."""

    index: Index[KnowledgeEntry]
    record: KnowledgeRecord
    follower: KnowledgeFollower
    announcer: KnowledgeAnnouncer

    async def compare(self) -> Drift:
        """Index what the record has and the index lacks or has otherwise, take out what only the index has.

        And say of items that the index has, and the record thinks it lacks, that it has them.

        Raises:
            IndexUnavailableError, RequestError: Not now.
        """
        live = await self.index.opened()
        if live is None:
            return Drift()
        noting = _Noting(self.record)
        found, differing = await lasting_differences(self.index.collections, noting, live, AT_ONCE)
        await in_batches(differing.keys, self.follower.follow)
        others = set(found.keys)  # followed, and told of, just now or by whoever heard of their change
        untold = [ref for key, ref in noting.unindexed.items() if key not in others]
        if untold:
            await self.announcer.indexed(untold)
        if differing or untold:
            indexed, removed = len(differing.unwritten), len(differing.ghosts)
            log.info("knowledge_drift_mended", indexed=indexed, removed=removed, told=len(untold))
        return Drift(len(differing.unwritten), len(differing.ghosts))
