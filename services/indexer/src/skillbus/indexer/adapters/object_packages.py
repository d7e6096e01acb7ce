"""Packages and uploads in the object store."""

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

_UNCLAIMED_AGE_S: Final = 3600.0
"""Age at which an unclaimed package cannot be part of an install in flight."""
_UPLOAD_BYTES: Final = ArchiveLimits().archive_bytes


class ObjectPackages:
    """Stored packages, one object each."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def store_package(self, key: PackageKey, packed: bytes) -> None:
        await self._store.put(make_package_name(*key), packed)

    async def load_package(self, key: PackageKey) -> bytes:
        return await self._store.get(make_package_name(*key), KEPT_LIMITS.archive_bytes)

    async def delete_package(self, key: PackageKey) -> None:
        await self._store.delete(make_package_name(*key))

    async def find_missing(self, keys: Collection[PackageKey]) -> frozenset[PackageKey]:
        existing = set(await self._store.names())
        return frozenset(key for key in keys if make_package_name(*key) not in existing)

    async def delete_unclaimed(self, claimed: Collection[PackageKey]) -> int:
        unclaimed = set(await self._store.names()) - {make_package_name(*key) for key in claimed}
        unclaimed_old = await self._store.older_than(_UNCLAIMED_AGE_S, unclaimed)
        for name in unclaimed_old:
            await self._store.delete(name)
        return len(unclaimed_old)


class IncomingObjects:
    """Packages of requests: inline, or under `incoming/` in the bucket `packages`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @asynccontextmanager
    async def open_content(self, package: Content) -> AsyncGenerator[bytes]:
        name = package.object_name
        if name is not None and not name.startswith(INCOMING_PREFIX):
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"The object of an incoming package is named {INCOMING_PREFIX}…."
            )
        data = package.inline if package.inline is not None else await self._store.get(name or "", _UPLOAD_BYTES)
        if hashlib.sha256(data).hexdigest() != package.sha256:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The package's SHA-256 is not the one in the request.")
        yield data
        if name is not None:
            await self._store.delete(name)


class ObjectUploads:
    """Uploads in the bucket `skills`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def load_upload(self, name: str) -> bytes | None:
        try:
            return await self._store.get(name, _UPLOAD_BYTES)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            if error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                raise PackageError((finding(FindingCode.TOO_LARGE, error.message, name),)) from error
            raise

    async def delete_upload(self, name: str) -> None:
        await self._store.delete(name)
