"""Packages in the object store."""

from typing import Final

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.resources import INCOMING_PREFIX, package_name
from skillbus.indexer.domain.package import KEPT_LIMITS
from skillbus.indexer.domain.record import SkillRecord

_LEFT_AFTER_S: Final = 3600.0


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

    async def sweep(self) -> int:
        left = await self._store.older_than(_LEFT_AFTER_S, INCOMING_PREFIX)
        for name in left:
            await self._store.delete(name)
        return len(left)


def _name(record: SkillRecord) -> str:
    return package_name(record.project, record.name, record.content_digest)
