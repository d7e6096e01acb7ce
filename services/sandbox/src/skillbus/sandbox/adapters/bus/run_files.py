"""Files of runs: small ones in messages, large ones in the object store."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Final

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.skill_runs import Artifact
from skillbus.sandbox.domain.run import spec as run

_INLINE_BYTES: Final = 128 * 1024
"""Largest inline output: both streams in base64 fit into a NATS message of 1 MiB together with a JSON result."""


class BusRunFiles:
    """`RunFiles` on the bucket `runs`: large output as `<run id>/<name>`, artifacts as `<run id>/out/<name>`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def fetch_files(self, files: Mapping[str, Content], max_bytes: int) -> dict[str, bytes]:
        if sum(content.size_bytes for content in files.values()) > max_bytes:
            raise _too_large(max_bytes)
        fetched, left_bytes = dict[str, bytes](), max_bytes
        for name, content in files.items():
            data = content.inline
            if data is None:
                data = await self._store.get(content.object_name or "", left_bytes)
            left_bytes -= len(data)
            if left_bytes < 0:
                raise _too_large(max_bytes)
            if await asyncio.to_thread(_digest, data) != content.sha256:
                said = f"The SHA-256 of the file {name[:128]!r} differs from the one in the request."
                raise RequestError(ErrorCode.INVALID_REQUEST, said)
            fetched[name] = data
        return fetched

    async def store_output(self, run_id: str, name: str, data: bytes) -> Content:
        if len(data) <= _INLINE_BYTES:
            return Content(size_bytes=len(data), sha256=_digest(data), inline=data)
        return await self._put(f"{run_id}/{name}", data)

    async def store_artifact(self, run_id: str, artifact: run.CollectedArtifact) -> Artifact:
        return Artifact(name=artifact.name, content=await self._put(f"{run_id}/out/{artifact.name}", artifact.content))

    async def _put(self, name: str, data: bytes) -> Content:
        await self._store.put(name, data)
        return Content(size_bytes=len(data), sha256=_digest(data), object_name=name)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        ErrorCode.PAYLOAD_TOO_LARGE, f"The files of a run are over the limit of {max_bytes} bytes together."
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
