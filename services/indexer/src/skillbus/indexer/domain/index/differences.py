"""Differences between a collection and the record of its entries."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from skillbus.indexer.domain.errors import UnsettledError
from skillbus.indexer.domain.index.batches import write_batches
from skillbus.indexer.domain.index.ports import (
    Collections,
    Digested,
    Entries,
    EntryT,
    Key,
    WritableCollections,
    hash_content,
)

_HASHES_PER_TURN: Final = 128
"""Hashes computed between two turns of the event loop: some milliseconds."""
_ENTRIES_IN_MEMORY: Final = 512
SETTLE_S: Final = (0.0, 0.2, 1.0)
"""Waits before a difference is checked again, to distinguish a lasting one from a write in flight."""
NO_WAIT: Final = (0.0,)
"""Settle time of a reconciler: a write in flight that it repairs needlessly does no harm, and it runs again soon."""
_MAX_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences as keys only: a repair reads the entries again, in their current state."""

    missing: tuple[Key, ...]
    """Entries without a point."""
    stale: tuple[Key, ...]
    """Entries with a point of other content, or without the vector of the collection's model."""
    ghosts: tuple[Key, ...]
    """Points without an entry."""
    total: int
    """Number of entries compared."""
    points: int
    """Number of points compared."""

    @property
    def unwritten(self) -> tuple[Key, ...]:
        """Entries to write."""
        return self.missing + self.stale

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys that differ."""
        return self.unwritten + self.ghosts

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.ghosts)


NO_DIFFERENCES: Final = Differences((), (), (), 0, 0)


async def compare_collection(
    collections: Collections, entries: Entries[Digested], collection: str, project: str | None = None
) -> Differences:
    """Compare a collection, or one project of it, with the record.

    The points are read before the entries: an entry that is removed in between counts as a ghost, and an entry that is
    added in between is written once more, which changes nothing.
    """
    hashes = {point.key: point.content_hash async for point in collections.scan_points(collection)}
    if project is not None:
        hashes = {key: value for key, value in hashes.items() if key[0] == project}
    return await _compare(hashes, entries.iterate_entries(project), collections.read_fingerprint(collection))


async def compare_keys(
    collections: Collections, entries: Entries[Digested], collection: str, keys: Sequence[Key]
) -> Differences:
    """Compare some entries with their points again."""

    async def load_entries() -> AsyncIterator[Digested]:
        for at in range(0, len(keys), _ENTRIES_IN_MEMORY):
            for entry in await entries.load_entries(keys[at : at + _ENTRIES_IN_MEMORY]):
                yield entry

    hashes = await collections.load_hashes(collection, keys)
    return await _compare(hashes, load_entries(), collections.read_fingerprint(collection))


async def find_lasting_differences(
    collections: Collections,
    entries: Entries[Digested],
    collection: str,
    settle_s: Sequence[float],
    project: str | None = None,
) -> tuple[Differences, Differences]:
    """Compare a collection with the record. Return all differences, and those that remain after the waits."""
    found = await compare_collection(collections, entries, collection, project)
    lasting = found
    for wait_s in settle_s:
        if not lasting:
            break
        await asyncio.sleep(wait_s)
        lasting = await compare_keys(collections, entries, collection, lasting.keys)
    return found, lasting


async def _compare(hashes: Mapping[Key, str], entries: AsyncIterator[Digested], fingerprint: str) -> Differences:
    """Compare hashes with entries. An entry written during the comparison may come twice: the last one counts."""
    same, missing, stale = set[Key](), set[Key](), set[Key]()
    compared = 0
    async for entry in entries:
        compared += 1
        if compared % _HASHES_PER_TURN == 0:
            await asyncio.sleep(0)
        found = hashes.get(entry.key)
        for kind in (same, missing, stale):
            kind.discard(entry.key)
        kind = missing if found is None else same if found == hash_content(entry, fingerprint) else stale
        kind.add(entry.key)
    known = same | missing | stale
    ghosts = tuple(key for key in hashes if key not in known)
    return Differences(tuple(sorted(missing)), tuple(sorted(stale)), ghosts, len(known), len(hashes))


@dataclass(frozen=True, slots=True)
class Backfill(Generic[EntryT]):
    """Fills one collection with vectors of its model. Methods raise IndexUnavailableError; the next call continues."""

    collections: WritableCollections[EntryT]
    entries: Entries[EntryT]
    collection: str
    report: Callable[[int, int], Awaitable[None]]
    """Receives the number of entries done and the total."""
    settle_s: tuple[float, ...] = SETTLE_S

    async def write_missing(self) -> None:
        """Write every entry that has no point. Points of an earlier attempt or of another writer stay."""
        differences = await compare_collection(self.collections, self.entries, self.collection)
        done, total = differences.total - len(differences.missing), differences.total
        await self.report(done, total)

        async def write(batch: Sequence[Key]) -> None:
            nonlocal done
            entries = await self.entries.load_entries(batch)
            await self.collections.write_points(self.collection, entries, insert_only=True, dense_required=True)
            done += len(batch)
            await self.report(done, total)

        await write_batches(differences.missing, write)

    async def verify(self) -> None:
        """Repair differences until a complete comparison finds none that lasts. Raises UnsettledError after ten rounds.

        A repair may write a record that was changed after it was read, over a newer point, or write an entry that was
        just removed. The next round finds both. So the last round is one that wrote nothing. Other writers write
        to this collection too, so it has all changes up to then and all later ones.
        """

        async def repair(batch: Sequence[Key]) -> None:
            entries = await self.entries.load_entries(batch)
            await self.collections.write_points(self.collection, entries, dense_required=True)

        for _ in range(_MAX_ROUNDS):
            found, lasting = await find_lasting_differences(
                self.collections, self.entries, self.collection, self.settle_s
            )
            await self.report(found.total - len(lasting.unwritten), found.total)
            if not lasting:
                return
            await write_batches(lasting.unwritten, repair)
            await self.collections.remove_points(self.collection, lasting.ghosts)
        raise UnsettledError(_MAX_ROUNDS, len(lasting.keys))
