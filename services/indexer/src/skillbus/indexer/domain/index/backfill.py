"""A collection filled from the record, and verified against it, while both change."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic

from skillbus.indexer.domain.errors import UnsettledError
from skillbus.indexer.domain.index.batches import in_batches
from skillbus.indexer.domain.index.differences import SETTLE_S, Differences, differences, lasting_differences
from skillbus.indexer.domain.index.ports import Entries, EntryT, FilledCollections, Key

Report = Callable[[int, int], Awaitable[None]]
"""Hears how many entries of how many are done."""
_MAX_ROUNDS: Final = 10


class Filling(Generic[EntryT]):
    """Fills one collection with vectors of its model."""

    def __init__(
        self,
        collections: FilledCollections[EntryT],
        entries: Entries[EntryT],
        collection: str,
        report: Report,
        settle_s: tuple[float, ...] = SETTLE_S,
    ) -> None:
        self._collections = collections
        self._entries = entries
        self._collection = collection
        self._report = report
        self._settle_s = settle_s

    async def backfill(self) -> None:
        """Write every entry that has no point; what an earlier try wrote, or a writer meanwhile, is left as it is.

        Raises:
            IndexUnavailableError: Not now; called again it goes on where it ended.
        """
        differing = await differences(self._collections, self._entries, self._collection)
        done, total = differing.total - len(differing.missing), differing.total
        await self._report(done, total)

        async def write(batch: Sequence[Key]) -> None:
            nonlocal done
            entries = await self._entries.of(batch)
            await self._collections.write(self._collection, entries, insert_only=True, dense_required=True)
            done += len(batch)
            await self._report(done, total)

        await in_batches(differing.missing, write)

    async def verify(self) -> None:
        """Mend what differs, until a whole comparison finds nothing that stays different.

        A record that was read here before it was changed can be written over a newer point, and an entry be written
        after it was removed; the round that follows finds both. So the last round is one that wrote nothing, and
        since writers write here too, all that the record has then, and gets from then on, is here.

        Raises:
            UnsettledError: Each round found something.
            IndexUnavailableError: Not now.
        """
        for _ in range(_MAX_ROUNDS):
            differing = await self._lasting()
            if not differing:
                return
            await in_batches(differing.unwritten, self._mend)
            await self._collections.remove(self._collection, differing.ghosts)
        raise UnsettledError(_MAX_ROUNDS, len(differing.keys))

    async def _lasting(self) -> Differences:
        found, lasting = await lasting_differences(self._collections, self._entries, self._collection, self._settle_s)
        await self._report(found.total - len(lasting.unwritten), found.total)
        return lasting

    async def _mend(self, batch: Sequence[Key]) -> None:
        await self._collections.write(self._collection, await self._entries.of(batch), dense_required=True)
