"""What of a collection differs from the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillbus.indexer.domain.content_hash import content_hash
from skillbus.indexer.domain.record import Catalogue, SkillRecord
from skillbus.indexer.domain.tool_collections import Key, ToolCollections


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
    return _between(hashes, await catalogue.all(), collections.fingerprint_of(collection))


async def still_different(
    collections: ToolCollections, catalogue: Catalogue, collection: str, keys: Sequence[Key]
) -> Differences:
    """Compare some tools again, point beside record: a write that was under way may have arrived meanwhile."""
    hashes = await collections.hashes(collection, keys)
    stored = [await catalogue.get(*key) for key in keys]
    return _between(hashes, [found.record for found in stored if found], collections.fingerprint_of(collection))


def _between(hashes: Mapping[Key, str], records: Sequence[SkillRecord], fingerprint: str) -> Differences:
    by_key = {(record.project, record.name): record for record in records}
    stale = [r for key, r in by_key.items() if key in hashes and hashes[key] != content_hash(r, fingerprint)]
    return Differences(
        missing=tuple(record for key, record in by_key.items() if key not in hashes),
        stale=tuple(stale),
        ghosts=tuple(key for key in hashes if key not in by_key),
        compared=tuple(records),
    )
