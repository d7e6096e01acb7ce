"""The bucket `skills` of the object store."""

from skillbus.common.archive import ArchiveLimits
from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.indexer.domain.package_errors import FindingCode, PackageError, finding

_MAX_BYTES = ArchiveLimits().archive_bytes


class ObjectUploads:
    """Uploads that wait in the bucket."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def get(self, name: str) -> bytes | None:
        try:
            return await self._store.get(name, _MAX_BYTES)
        except RequestError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            if error.code is ErrorCode.PAYLOAD_TOO_LARGE:
                raise PackageError((finding(FindingCode.TOO_LARGE, error.message, name),)) from error
            raise

    async def delete(self, name: str) -> None:
        await self._store.delete(name)
