"""What of a collection differs from the record."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.indexer.domain.index.ports import Collections, Digested, Entries, Key, content_hash

_AT_A_TIME: Final = 128
"""Hashes computed between two turns of the event loop, some milliseconds."""
_READ_AT_ONCE: Final = 512
"""Entries that are in memory whole."""
SETTLE_S: Final = (0.0, 0.2, 1.0)
"""After these waits a difference is looked at again, to tell one that stays from a write that is under way."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Between the record and a collection. Keys only: what is written is read again then, as it is by then."""

    missing: tuple[Key, ...]
    """Entries without a point."""
    stale: tuple[Key, ...]
    """Entries whose point is of something else, or without the vector of the collection's model."""
    ghosts: tuple[Key, ...]
    """Points without an entry."""
    total: int
    """Entries that were looked at."""
    points: int
    """Points that were looked at."""

    @property
    def unwritten(self) -> tuple[Key, ...]:
        """What is to be written."""
        return self.missing + self.stale

    @property
    def keys(self) -> tuple[Key, ...]:
        """All that differ."""
        return self.unwritten + self.ghosts

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.ghosts)


NONE: Final = Differences((), (), (), 0, 0)
"""Of an index that was never made, and a record that has nothing for it."""


async def differences(
    collections: Collections, entries: Entries[Digested], collection: str, project: str | None = None
) -> Differences:
    """Compare all of it, or a project.

    The points are read first: what was removed meanwhile is then seen as such, and what was added meanwhile is written
    once more, which changes nothing.
    """
    hashes = {point.key: point.content_hash async for point in collections.scan(collection)}
    if project is not None:
        hashes = {key: value for key, value in hashes.items() if key[0] == project}
    return await _between(hashes, entries.all(project), collections.fingerprint_of(collection))


async def still_different(
    collections: Collections, entries: Entries[Digested], collection: str, keys: Sequence[Key]
) -> Differences:
    """Compare some entries again, point beside record: a write that was under way may have arrived meanwhile."""
    hashes = await collections.hashes(collection, keys)
    return await _between(hashes, _read(entries, keys), collections.fingerprint_of(collection))


async def lasting_differences(
    collections: Collections,
    entries: Entries[Digested],
    collection: str,
    settle_s: Sequence[float],
    project: str | None = None,
) -> tuple[Differences, Differences]:
    """What a comparison finds, and what of it is still so after each of these waits."""
    found = await differences(collections, entries, collection, project)
    lasting = found
    for wait_s in settle_s:
        if not lasting:
            break
        await asyncio.sleep(wait_s)
        lasting = await still_different(collections, entries, collection, lasting.keys)
    return found, lasting


async def _read(entries: Entries[Digested], keys: Sequence[Key]) -> AsyncIterator[Digested]:
    for at in range(0, len(keys), _READ_AT_ONCE):
        for entry in await entries.of(keys[at : at + _READ_AT_ONCE]):
            yield entry


async def _between(hashes: Mapping[Key, str], entries: AsyncIterator[Digested], fingerprint: str) -> Differences:
    """An entry that is written while the record is read may come twice: the last counts."""
    same, missing, stale = set[Key](), set[Key](), set[Key]()
    read = 0
    async for entry in entries:
        read += 1
        if read % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        found = hashes.get(entry.key)
        for kind in (same, missing, stale):
            kind.discard(entry.key)
        kind = missing if found is None else same if found == content_hash(entry, fingerprint) else stale
        kind.add(entry.key)
    known = same | missing | stale
    ghosts = tuple(key for key in hashes if key not in known)
    return Differences(tuple(sorted(missing)), tuple(sorted(stale)), ghosts, len(known), len(hashes))
