"""Packages in the object store."""

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.resources import package_name
from skillbus.indexer.domain.package import KEPT_LIMITS
from skillbus.indexer.domain.record import SkillRecord


class ObjectPackages:
    """One object a package."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, record: SkillRecord, packed: bytes) -> None:
        await self._store.put(_name(record), packed)

    async def get(self, record: SkillRecord) -> bytes:
        return await self._store.get(_name(record), KEPT_LIMITS.archive_bytes)

    async def delete(self, record: SkillRecord) -> None:
        await self._store.delete(_name(record))


def _name(record: SkillRecord) -> str:
    return package_name(record.project, record.name, record.content_digest)
