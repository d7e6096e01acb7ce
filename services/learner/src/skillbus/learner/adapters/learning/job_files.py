"""Files of jobs: fetched from the bucket `learning` or taken from the request, and deleted in the end."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import structlog

from skillbus.common.bus.objects import ObjectStore
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.learning_jobs import LearningFile
from skillbus.contracts.message import Content

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BucketJobFiles:
    """Files of the bucket."""

    store: ObjectStore

    async def fetch_file(self, content: Content, path: Path) -> None:
        if content.object_name is None:
            await asyncio.to_thread(path.write_bytes, content.inline or b"")
            return
        digest = hashlib.sha256()
        opened = await self.store.open(content.object_name, content.size_bytes)
        with path.open("xb") as file:
            async with aclosing(opened.pieces) as pieces:
                async for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
        if digest.hexdigest() != content.sha256.lower():
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"The object {content.object_name} does not have its `sha256`: store it again and give its digest.",
            )

    async def delete_files(self, files: Sequence[LearningFile]) -> None:
        names = {file.content.object_name for file in files} - {None}
        for name in names:
            try:
                await self.store.delete(str(name))
            except RequestError as error:
                # The bucket deletes it after a day.
                log.warning("learning_file_not_deleted", object=name, error=error.message)
                return
