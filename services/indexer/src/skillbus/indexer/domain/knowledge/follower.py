"""The index of knowledge made to follow the record, and the learner told how far it has."""

from asyncio import Lock
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakValueDictionary

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeRef
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.knowledge.entry import KnowledgeEntry, KnowledgeRecord, entries_of

TRIES: Final = 3
"""Of following what was heard of, within some 6 s."""

log = structlog.get_logger(__name__)


class KnowledgeAnnouncer(Protocol):
    """Tells which versions the index has."""

    async def indexed(self, items: Sequence[KnowledgeRef]) -> None:
        """It has these, or has let go of what is not to be found.

        Returns when it cannot be lost any more. Raises RequestError when that cannot be had.
        """
        ...


class KnowledgeFollower:
    """Brings the index to where the record is, item by item."""

    def __init__(self, index: Index[KnowledgeEntry], record: KnowledgeRecord, announcer: KnowledgeAnnouncer) -> None:
        self._index = index
        self._record = record
        self._announcer = announcer
        self._locks: WeakValueDictionary[Key, Lock] = WeakValueDictionary()

    async def follow(self, keys: Sequence[Key]) -> None:
        """Have the index hold these items as the record has them, or not at all, and say so.

        One at a time of an item: of two changes the later would be found, then the earlier, then the later again.

        Raises:
            IndexUnavailableError, RequestError: Not now; what was done is not undone by doing it again.
        """
        wanted = sorted(set(keys))
        async with AsyncExitStack() as held:
            for key in wanted:
                await held.enter_async_context(self._locks.setdefault(key, Lock()))
            seen = await self._followed(wanted)
        if seen:
            await self._announcer.indexed([ref_of(item) for item in seen])

    async def _followed(self, keys: Sequence[Key]) -> Sequence[KnowledgeItem]:
        """The items as they were when the index last agreed with them."""
        seen = dict[Key, KnowledgeItem]()

        async def read(some: Sequence[Key]) -> Sequence[KnowledgeEntry]:
            items = await self._record.read(some)
            seen.update({(item.project, item.id): item for item in items})
            return entries_of(items)

        known = await read(keys)
        there = await self._index.holds(known)
        others = [entry for entry in known if entry.key not in there]
        await self._index.follow([key for key in keys if key not in there], others, read=read)
        return list(seen.values())


@dataclass(frozen=True, slots=True)
class HeardChanges:
    """Follows what is heard of; what cannot be followed for so many tries is left to the comparison.

    That is made again until it can be, every 30 s at the latest, and misses nothing. Events would come back after 2
    and 10 minutes, fill the thousand places of those that wait, before which no new one comes, and end as dead letters.
    """

    follower: KnowledgeFollower
    compare: Callable[[], None]
    """Have record and index compared soon."""

    async def follow(self, keys: Sequence[Key], attempt: int) -> None:
        """As `KnowledgeFollower.follow`; raises nothing of that at the last try."""
        try:
            await self.follower.follow(keys)
        except (IndexUnavailableError, RequestError) as error:
            if attempt < TRIES:
                raise
            log.info("changes_left_to_comparison", items=len(keys), reason=str(error))
            self.compare()


def ref_of(item: KnowledgeItem) -> KnowledgeRef:
    """An item at its version."""
    return KnowledgeRef(project=item.project, id=item.id, version=item.version)
