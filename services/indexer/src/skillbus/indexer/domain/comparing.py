"""What of a collection differs from the catalogue."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.indexer.domain.content_hash import content_hash
from skillbus.indexer.domain.record import Catalogue, SkillRecord
from skillbus.indexer.domain.tool_collections import Key, ToolCollections

_AT_A_TIME: Final = 128
"""Hashes computed between two turns of the event loop, some milliseconds."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Between the catalogue and a collection."""

    missing: tuple[SkillRecord, ...]
    """Records without a point."""
    stale: tuple[SkillRecord, ...]
    """Records whose point is of something else, or without the vector of the collection's model."""
    ghosts: tuple[Key, ...]
    """Points without a record."""
    compared: tuple[SkillRecord, ...]
    """All records that were looked at."""

    @property
    def total(self) -> int:
        """Records that were looked at."""
        return len(self.compared)

    @property
    def records(self) -> tuple[SkillRecord, ...]:
        """What is to be written."""
        return self.missing + self.stale

    @property
    def keys(self) -> tuple[Key, ...]:
        """All that differ."""
        return tuple((record.project, record.name) for record in self.records) + self.ghosts

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.ghosts)


async def differences(collections: ToolCollections, catalogue: Catalogue, collection: str) -> Differences:
    """Compare all of it.

    The points are read first: what was uninstalled meanwhile is then seen as such, and what was installed meanwhile is
    written once more, which changes nothing.
    """
    hashes = {tool.key: tool.content_hash async for tool in collections.tools(collection)}
    return await _between(hashes, await catalogue.all(), collections.fingerprint_of(collection))


async def still_different(
    collections: ToolCollections, catalogue: Catalogue, collection: str, keys: Sequence[Key]
) -> Differences:
    """Compare some tools again, point beside record: a write that was under way may have arrived meanwhile."""
    hashes = await collections.hashes(collection, keys)
    stored = [await catalogue.get(*key) for key in keys]
    return await _between(hashes, [found.record for found in stored if found], collections.fingerprint_of(collection))


async def _between(hashes: Mapping[Key, str], records: Sequence[SkillRecord], fingerprint: str) -> Differences:
    missing, stale = list[SkillRecord](), list[SkillRecord]()
    for number, record in enumerate(records):
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        found = hashes.get((record.project, record.name))
        if found is None:
            missing.append(record)
        elif found != content_hash(record, fingerprint):
            stale.append(record)
    known = {(record.project, record.name) for record in records}
    return Differences(tuple(missing), tuple(stale), tuple(key for key in hashes if key not in known), tuple(records))
