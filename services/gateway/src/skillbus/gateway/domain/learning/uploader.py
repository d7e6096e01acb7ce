"""Uploads of files to learn from: into the object store as they arrive, then one request for all of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import structlog
from pydantic import Field, ValidationError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.learning_jobs import (
    DEFAULT_SOURCE,
    MAX_FILES,
    START_LEARNING,
    LearningFile,
    LearningInputKind,
    LearningSource,
    LearningStarted,
    LearningTask,
    RunContext,
    StartLearning,
)
from skillbus.contracts.message import Content, ProjectMessage
from skillbus.gateway.domain.learning.form_files import FormFiles
from skillbus.gateway.domain.ports import BusCaller, ObjectSink

FORM: Final = "multipart/form-data"
_DISCARD_S: Final = 10.0

log = structlog.get_logger(__name__)


class LearningOptions(ProjectMessage):
    """Options of an upload of files to learn from."""

    source: LearningSource = DEFAULT_SOURCE
    """Origin of the files: the name of a service, of a log or of a test suite."""
    task: LearningTask = ""
    """Id of the task that made the files. It becomes the `source_ref` of the items."""
    run: str = Field(default="", max_length=200)
    """Id of the test run."""
    commit: str = Field(default="", max_length=200)
    """Commit that was tested."""
    branch: str = Field(default="", max_length=200)
    """Branch that was tested."""
    name: str = Field(default="", max_length=300)
    """Name of the file, for a body that is one file and not a form."""


@dataclass(frozen=True, slots=True)
class LearningUploader:
    """Starts jobs for uploaded files."""

    caller: BusCaller
    objects: ObjectSink

    async def start_learning(
        self,
        what: LearningInputKind,
        options: LearningOptions,
        content_type: str,
        body: AsyncIterator[bytes],
        actor: str,
    ) -> LearningStarted:
        """Store the files of a body and start a job for them. After an error nothing of them is kept.

        Raises:
            RequestError: The body is no form and has no name, or the store or the learner refuses it.
        """
        stored: list[str] = []
        try:
            files = [
                await self._store(options.project, name, content, stored)
                async for name, content in _iterate_files(options, content_type, body)
            ]
            request = _build_request(what, options, files, actor)
            return await self.caller.call(START_LEARNING, request)
        except BaseException:  # also if the caller leaves
            await self._discard(stored)
            raise

    async def _store(self, project: str, name: str, content: AsyncIterator[bytes], stored: list[str]) -> LearningFile:
        if len(stored) == MAX_FILES:
            raise RequestError(
                ErrorCode.PAYLOAD_TOO_LARGE, f"One request takes at most {MAX_FILES} files: send the others in another."
            )
        object_name = f"{project}/{uuid4().hex}"
        kept = await self.objects.put_pieces(object_name, content)
        stored.append(object_name)
        described = Content(size_bytes=kept.size_bytes, sha256=kept.sha256, object_name=object_name)
        return LearningFile.model_construct(name=name, content=described)

    async def _discard(self, names: list[str]) -> None:
        try:
            async with asyncio.timeout(_DISCARD_S):
                for name in names:
                    await self.objects.delete(name)
        except (RequestError, TimeoutError) as error:
            # The bucket deletes them after a day.
            log.warning("learning_files_not_deleted", files=len(names), error=repr(error))


async def _iterate_files(
    options: LearningOptions, content_type: str, body: AsyncIterator[bytes]
) -> AsyncGenerator[tuple[str, AsyncIterator[bytes]]]:
    if content_type.partition(";")[0].strip().lower() == FORM:
        async for file in FormFiles(content_type, body).iterate_files():
            yield file
    elif options.name:
        yield options.name, body
    else:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Send the files as a form ({FORM}), or one file with `name` in the query."
        )


def _build_request(
    what: LearningInputKind, options: LearningOptions, files: list[LearningFile], actor: str
) -> StartLearning:
    try:
        return StartLearning(
            project=options.project,
            what=what,
            source=options.source,
            files=tuple(LearningFile.model_validate(file.model_dump()) for file in files),
            task=options.task,
            context=RunContext(run=options.run, commit=options.commit, branch=options.branch),
            actor=actor,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RequestError(ErrorCode.INVALID_REQUEST, f"`{where}`: {first['msg']}.") from error
