"""Backfill of a collection from the record, and its verification, while both change."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic

from skillbus.indexer.domain.errors import UnsettledError
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.differences import SETTLE_S, compare_collection, find_lasting_differences
from skillbus.indexer.domain.index.ports import Entries, EntryT, Key, WritableCollections

ReportProgress = Callable[[int, int], Awaitable[None]]
"""Receives the number of entries done and the total."""

_MAX_ROUNDS: Final = 10


class Backfill(Generic[EntryT]):
    """Fills one collection with vectors of its model."""

    def __init__(
        self,
        collections: WritableCollections[EntryT],
        entries: Entries[EntryT],
        collection: str,
        report: ReportProgress,
        settle_s: tuple[float, ...] = SETTLE_S,
    ) -> None:
        self._collections = collections
        self._entries = entries
        self._collection = collection
        self._report = report
        self._settle_s = settle_s

    async def write_missing(self) -> None:
        """Write every entry that has no point. Points of an earlier attempt or of another writer stay.

        Raises:
            IndexUnavailableError: Not possible now. The next call continues.
        """
        differences = await compare_collection(self._collections, self._entries, self._collection)
        done, total = differences.total - len(differences.missing), differences.total
        await self._report(done, total)

        async def write(batch: Sequence[Key]) -> None:
            nonlocal done
            entries = await self._entries.load_entries(batch)
            await self._collections.write_points(self._collection, entries, insert_only=True, dense_required=True)
            done += len(batch)
            await self._report(done, total)

        await write_batches(differences.missing, write)

    async def verify(self) -> None:
        """Repair differences until a complete comparison finds none that lasts.

        A repair may write a record that was changed after it was read, over a newer point, or write an entry that was
        just removed. The next round finds both. So the last round is one that wrote nothing. Other writers write
        to this collection too, so it has all changes up to then and all later ones.

        Raises:
            UnsettledError: Every round found a difference.
            IndexUnavailableError: Not possible now.
        """

        async def repair(batch: Sequence[Key]) -> None:
            entries = await self._entries.load_entries(batch)
            await self._collections.write_points(self._collection, entries, dense_required=True)

        for _ in range(_MAX_ROUNDS):
            found, lasting = await find_lasting_differences(
                self._collections, self._entries, self._collection, self._settle_s
            )
            await self._report(found.total - len(lasting.unwritten), found.total)
            if not lasting:
                return
            await write_batches(lasting.unwritten, repair)
            await self._collections.remove_points(self._collection, lasting.ghosts)
        raise UnsettledError(_MAX_ROUNDS, len(lasting.keys))
