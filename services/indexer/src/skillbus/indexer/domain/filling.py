"""A collection filled from the catalogue, and verified against it, while both change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from skillbus.indexer.domain.comparing import Differences, differences, still_different
from skillbus.indexer.domain.errors import UnsettledError
from skillbus.indexer.domain.index_entry import Entries
from skillbus.indexer.domain.together import in_batches
from skillbus.indexer.domain.tool_collections import ToolCollections
from skillbus.indexer.domain.tool_record import Key

Report = Callable[[int, int], Awaitable[None]]
"""Hears how many tools of how many are done."""

SETTLE_S: Final = (0.0, 0.2, 1.0)
"""After these waits a difference is looked at again, to tell one that stays from a write that is under way."""
_MAX_ROUNDS: Final = 10


class Filling:
    """Fills one collection with vectors of its model."""

    def __init__(
        self,
        collections: ToolCollections,
        entries: Entries,
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
        """Write every tool that has no point; what an earlier try wrote, or a writer meanwhile, is left as it is.

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

        A record that was read here before it was changed can be written over a newer point, and a tool be written
        after it was uninstalled; the round that follows finds both. So the last round is one that wrote nothing, and
        since writers write here too, all that the catalogue has then, and gets from then on, is here.

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
        differing = await differences(self._collections, self._entries, self._collection)
        total = differing.total
        for wait_s in self._settle_s:
            if not differing:
                break
            await asyncio.sleep(wait_s)
            differing = await still_different(self._collections, self._entries, self._collection, differing.keys)
        await self._report(total - len(differing.unwritten), total)
        return differing

    async def _mend(self, batch: Sequence[Key]) -> None:
        await self._collections.write(self._collection, await self._entries.of(batch), dense_required=True)
