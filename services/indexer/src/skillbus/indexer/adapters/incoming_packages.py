"""Packages that come with a request: inline, or through the bucket `packages`."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from skillbus.common.archive import ArchiveLimits
from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.resources import INCOMING_PREFIX

_MAX_BYTES: Final = ArchiveLimits().archive_bytes


class BusPackages:
    """What is not inline lies under `incoming/` in the bucket `packages`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @asynccontextmanager
    async def opened(self, package: Content) -> AsyncGenerator[bytes]:
        name = package.object_name
        if name is not None and not name.startswith(INCOMING_PREFIX):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Packages on their way in are named {INCOMING_PREFIX}….")
        data = package.inline if package.inline is not None else await self._store.get(name or "", _MAX_BYTES)
        if hashlib.sha256(data).hexdigest() != package.sha256:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The package's SHA-256 is not the one in the request.")
        yield data
        if name is not None:
            await self._store.delete(name)
