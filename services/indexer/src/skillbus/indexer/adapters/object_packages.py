"""Packages in the object store."""

from collections.abc import Sequence
from typing import Final

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.resources import package_name
from skillbus.indexer.domain.package import KEPT_LIMITS
from skillbus.indexer.domain.record import SkillRecord

_LEFT_AFTER_S: Final = 3600.0
"""Long after any install that began when the package was put has ended."""


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

    async def sweep(self, records: Sequence[SkillRecord]) -> int:
        unclaimed = set(await self._store.names()) - {_name(record) for record in records}
        left = await self._store.older_than(_LEFT_AFTER_S, unclaimed)
        for name in left:
            await self._store.delete(name)
        return len(left)


def _name(record: SkillRecord) -> str:
    return package_name(record.project, record.name, record.content_digest)
