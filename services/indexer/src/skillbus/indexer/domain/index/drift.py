"""Repair of an index that has drifted from its record."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import structlog

from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.differences import NO_WAIT, Differences, find_lasting_differences
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.ports import Digested, Entries, EntryT, Key

log = structlog.get_logger(__name__)


async def repair_drift(
    index: Index[EntryT], entries: Entries[Digested], live: str, sync: Callable[[Sequence[Key]], Awaitable[None]]
) -> tuple[Differences, Differences]:
    """Make the index follow the record where they differ. Return all differences, and those that were repaired.

    A second look leaves writes in flight alone: writing such an entry again could only make it worse.
    """
    found, differing = await find_lasting_differences(index.collections, entries, live, NO_WAIT)
    await write_batches(differing.keys, sync)
    return found, differing


@dataclass(frozen=True, slots=True)
class IndexReconciler(Generic[EntryT]):
    """Compares an index with its record."""

    index: Index[EntryT]

    async def compare_index(self) -> None:
        """Index missing and stale entries, and remove points without an entry. Raises IndexUnavailableError."""
        live = await self.index.open_if_needed()
        if live is None:
            return
        _, differing = await repair_drift(self.index, self.index.entries, live, self.index.sync_entries)
        if differing:
            indexed, removed = len(differing.unwritten), len(differing.ghosts)
            log.info("index_drift_repaired", alias=self.index.alias, indexed=indexed, removed=removed)
