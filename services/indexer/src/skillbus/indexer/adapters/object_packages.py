"""Packages in the object store."""

import hashlib
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Final

from skillbus.common.archive import ArchiveLimits
from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.resources import INCOMING_PREFIX, make_package_name
from skillbus.indexer.domain.catalogue.skill import PackageKey
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding
from skillbus.indexer.domain.package.skill_package import KEPT_LIMITS

_LEFT_AFTER_S: Final = 3600.0
"""Long after any install that began when the package was put has ended."""
_UPLOAD_BYTES: Final = ArchiveLimits().archive_bytes


class ObjectPackages:
    """One object a package."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, key: PackageKey, packed: bytes) -> None:
        await self._store.put(make_package_name(*key), packed)

    async def get(self, key: PackageKey) -> bytes:
        return await self._store.get(make_package_name(*key), KEPT_LIMITS.archive_bytes)

    async def delete(self, key: PackageKey) -> None:
        await self._store.delete(make_package_name(*key))

    async def missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        there = set(await self._store.names())
        return frozenset(key for key in keys if make_package_name(*key) not in there)

    async def sweep(self, kept: Collection[PackageKey]) -> int:
        unclaimed = set(await self._store.names()) - {make_package_name(*key) for key in kept}
        left = await self._store.older_than(_LEFT_AFTER_S, unclaimed)
        for name in left:
            await self._store.delete(name)
        return len(left)


class BusPackages:
    """What is not inline lies under `incoming/` in the bucket `packages`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @asynccontextmanager
    async def opened(self, package: Content) -> AsyncGenerator[bytes]:
        name = package.object_name
        if name is not None and not name.startswith(INCOMING_PREFIX):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Packages on their way in are named {INCOMING_PREFIX}….")
        data = package.inline if package.inline is not None else await self._store.get(name or "", _UPLOAD_BYTES)
        if hashlib.sha256(data).hexdigest() != package.sha256:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The package's SHA-256 is not the one in the request.")
        yield data
        if name is not None:
            await self._store.delete(name)


class ObjectUploads:
    """Uploads that wait in the bucket."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def get(self, name: str) -> bytes | None:
        try:
            return await self._store.get(name, _UPLOAD_BYTES)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            if error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                raise PackageError((finding(FindingCode.TOO_LARGE, error.message, name),)) from error
            raise

    async def delete(self, name: str) -> None:
        await self._store.delete(name)
