"""Input files of runs and calls: inline in the message if they are small, otherwise in the object store."""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Final

import structlog
from pydantic import BeforeValidator

from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Blob, Content
from skillbus.gateway.domain.ports import ObjectFiles

INLINE_BYTES: Final = 256 * 1024
"""Largest total size of input files inside the message of a run."""
FILES_MAX: Final = 64

log = structlog.get_logger(__name__)


def _limit_files(files: object) -> object:
    """Refuse too many files before any of them is validated."""
    if isinstance(files, dict) and len(files) > FILES_MAX:
        raise ValueError(f"has more than {FILES_MAX} files")
    return files


InputFiles = Annotated[dict[str, Blob], BeforeValidator(_limit_files)]
"""Files by name, in base64."""


@asynccontextmanager
async def stage_files(store: ObjectFiles, files: dict[str, bytes]) -> AsyncGenerator[dict[str, Content]]:
    """Yield the files as contents. Objects in the object store are deleted after the run."""
    if sum(map(len, files.values())) <= INLINE_BYTES:
        yield {name: Content(size_bytes=len(data), sha256=_hash(data), inline=data) for name, data in files.items()}
        return
    folder = f"in/{uuid.uuid4().hex}"
    staged: dict[str, Content] = {}
    try:
        for number, (name, data) in enumerate(files.items()):
            digest = await asyncio.to_thread(_hash, data)
            object_name = f"{folder}/{number}"
            staged[name] = Content(size_bytes=len(data), sha256=digest, object_name=object_name)
            await store.put(object_name, data)
        yield staged
    finally:
        try:
            for content in staged.values():
                await store.delete(content.object_name or "")
        except RequestError as error:
            # The bucket deletes the files after one day, and the caller waits for the result of the run.
            log.warning("run_input_not_deleted", folder=folder, code=error.code)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
