"""Follower of the knowledge record: indexes changed items and reports to the learner how far the index is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from skillbus.common.keyed_locks import KeyedLocks
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntry, LearnerRecord, make_entries

ATTEMPTS: Final = 3
"""Attempts to follow an event, within some 6 s."""

log = structlog.get_logger(__name__)


class KnowledgeAnnouncer(Protocol):
    """Reports the versions that the index has."""

    async def announce_indexed(self, items: Sequence[KnowledgeRef]) -> None:
        """Report that the index has these versions, or has removed items that search should not find.

        Returns when the event is stored. Raises RequestError when the bus is unavailable.
        """
        ...


class KnowledgeFollower:
    """Brings the index to the state of the record, item by item."""

    def __init__(self, index: Index[KnowledgeEntry], record: LearnerRecord, announcer: KnowledgeAnnouncer) -> None:
        self._index = index
        self._record = record
        self._announcer = announcer
        self._locks = KeyedLocks[Key]()

    async def follow_items(self, keys: Sequence[Key]) -> None:
        """Index items as they are recorded, or remove them, and report it.

        Changes of one item are followed one after the other. Side by side, search would find the later version, then
        the earlier one, then the later one again.

        Raises:
            IndexUnavailableError, RequestError: Not possible now. A repetition is harmless.
        """
        wanted = sorted(set(keys))
        async with self._locks.hold(*wanted):
            seen = await self._sync(wanted)
        if seen:
            refs = [KnowledgeRef(project=item.project, id=item.id, version=item.version) for item in seen]
            await self._announcer.announce_indexed(refs)

    async def _sync(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """Index the items that changed. Return the items as they were when the index last agreed with them."""
        seen = dict[Key, KnowledgeItem]()

        async def load(some: Sequence[Key]) -> Sequence[KnowledgeEntry]:
            items = await self._record.load_items(some)
            seen.update({(item.project, item.id): item for item in items})
            return make_entries(items)

        known = await load(keys)
        current = await self._index.find_current(known)
        changed = [entry for entry in known if entry.key not in current]
        await self._index.sync_entries([key for key in keys if key not in current], changed, load=load)
        return list(seen.values())


@dataclass(frozen=True, slots=True)
class ChangeListener:
    """Follows events about changed items. After the last attempt it leaves them to the comparison.

    The comparison is repeated until it succeeds, every 30 s at the latest, and misses nothing. A redelivered event
    would come after 2 and 10 minutes, occupy one of the thousand places of unacknowledged events, and end as a dead
    letter.
    """

    follower: KnowledgeFollower
    compare_soon: Callable[[], None]

    async def follow_event(self, keys: Sequence[Key], attempt: int) -> None:
        """Follow as `KnowledgeFollower.follow_items`, but raise none of its errors at the last attempt."""
        try:
            await self.follower.follow_items(keys)
        except (IndexUnavailableError, RequestError) as error:
            if attempt < ATTEMPTS:
                raise
            log.info("changes_left_to_comparison", items=len(keys), reason=str(error))
            self.compare_soon()
