"""What of a collection differs from the catalogue."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.indexer.domain.content_hash import content_hash
from skillbus.indexer.domain.index_entry import Entries, IndexEntry
from skillbus.indexer.domain.tool_collections import ToolCollections
from skillbus.indexer.domain.tool_record import Key

_AT_A_TIME: Final = 128
"""Hashes computed between two turns of the event loop, some milliseconds."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Between the catalogue and a collection. Keys only: what is written is read again then, as it is by then."""

    missing: tuple[Key, ...]
    """Tools without a point."""
    stale: tuple[Key, ...]
    """Tools whose point is of something else, or without the vector of the collection's model."""
    ghosts: tuple[Key, ...]
    """Points without a tool."""
    total: int
    """Tools that were looked at."""
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


async def differences(
    collections: ToolCollections, entries: Entries, collection: str, project: str | None = None
) -> Differences:
    """Compare all of it, or a project.

    The points are read first: what was removed meanwhile is then seen as such, and what was added meanwhile is written
    once more, which changes nothing.
    """
    hashes = {tool.key: tool.content_hash async for tool in collections.tools(collection)}
    if project is not None:
        hashes = {key: value for key, value in hashes.items() if key[0] == project}
    return await _between(hashes, entries.all(project), collections.fingerprint_of(collection))


async def still_different(
    collections: ToolCollections, entries: Entries, collection: str, keys: Sequence[Key]
) -> Differences:
    """Compare some tools again, point beside record: a write that was under way may have arrived meanwhile."""
    hashes = await collections.hashes(collection, keys)
    return await _between(hashes, _each(await entries.of(keys)), collections.fingerprint_of(collection))


async def _each(entries: Sequence[IndexEntry]) -> AsyncIterator[IndexEntry]:
    for entry in entries:
        yield entry


async def _between(hashes: Mapping[Key, str], entries: AsyncIterator[IndexEntry], fingerprint: str) -> Differences:
    """An entry that is written while the catalogue is read may come twice: the last counts."""
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
