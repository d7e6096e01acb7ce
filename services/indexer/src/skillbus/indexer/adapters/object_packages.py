"""Packages in the object store."""

from collections.abc import Collection
from typing import Final

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.resources import package_name
from skillbus.indexer.domain.package import KEPT_LIMITS
from skillbus.indexer.domain.record import PackageKey

_LEFT_AFTER_S: Final = 3600.0
"""Long after any install that began when the package was put has ended."""


class ObjectPackages:
    """One object a package."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, key: PackageKey, packed: bytes) -> None:
        await self._store.put(package_name(*key), packed)

    async def get(self, key: PackageKey) -> bytes:
        return await self._store.get(package_name(*key), KEPT_LIMITS.archive_bytes)

    async def delete(self, key: PackageKey) -> None:
        await self._store.delete(package_name(*key))

    async def missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        there = set(await self._store.names())
        return frozenset(key for key in keys if package_name(*key) not in there)

    async def sweep(self, kept: Collection[PackageKey]) -> int:
        unclaimed = set(await self._store.names()) - {package_name(*key) for key in kept}
        left = await self._store.older_than(_LEFT_AFTER_S, unclaimed)
        for name in left:
            await self._store.delete(name)
        return len(left)
