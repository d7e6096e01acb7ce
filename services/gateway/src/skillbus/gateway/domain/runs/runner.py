"""Runs of skills, as HTTP speaks of them: text and base64 instead of contents that lie in the object store."""

import asyncio
import hashlib
import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Final, Self
from urllib.parse import quote

import structlog
from pydantic import BeforeValidator, Field, JsonValue, model_validator

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import RunArtifact, RunReply
from skillbus.contracts.message import Blob, Content, Message
from skillbus.contracts.sandbox.run_history import RunEvent, RunSelector
from skillbus.contracts.sandbox.skill_runs import (
    RUN_SKILL,
    Artifact,
    RunId,
    RunSkill,
    SkillRan,
)
from skillbus.gateway.domain.ports import BusCaller, Objects, RunFeed, StoredObject
from skillbus.gateway.domain.runs.follower import cancel_for_good, until_the_end

INLINE_BYTES: Final = 256 * 1024
"""What all files of a run may be together to travel in its message."""
FILES_MAX: Final = 64
OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Of one stream: the most that the sandbox can be set to let a run print."""
ARTIFACT_BYTES: Final = 1024 * 1024
"""Artifacts up to this come in the reply."""
_MARGIN_S: Final = 15.0
"""What a run may take beside its wall clock: waiting for a slot, unpacking, fetching files."""
_ARTIFACTS: Final = "out/"
"""The sandbox names artifacts `<run id>/out/<name>` in the bucket."""
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}")
_ARTIFACT_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,512}")

log = structlog.get_logger(__name__)


def _few(files: object) -> object:
    """Refuse too many files before each is looked at."""
    if isinstance(files, dict) and len(files) > FILES_MAX:
        raise ValueError(f"at most {FILES_MAX} files can be given")
    return files


class RunBody(Message):
    """A run of one action of a skill."""

    action: str | None = None
    """An action or a script's path; the default action if absent."""
    args: dict[str, JsonValue] | None = None
    """Arguments by name, checked against the action's input schema."""
    argv: Annotated[tuple[str, ...], Field(max_length=256, fail_fast=True)] | None = None
    """Arguments as they are; instead of `args`."""
    stdin: str | None = None
    """Standard input; not for actions that take their arguments there."""
    files: Annotated[dict[str, Blob], BeforeValidator(_few)] = Field(default_factory=dict, max_length=FILES_MAX)
    """Files by name, base64; read-only in the folder that `$SKILLBUS_IN` names."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Wall clock; the limit of the skill's runs if absent or larger."""
    run_id: RunId | None = None
    """The run's id, to cancel it by; made if absent. One that is in use or known is refused."""

    @model_validator(mode="after")
    def _one_kind_of_arguments(self) -> Self:
        if self.args is not None and self.argv is not None:
            raise ValueError("give args or argv, not both")
        return self


class SkillRunner:
    """Runs skills, and fetches what they left. A run whose caller is cancelled is ended."""

    def __init__(self, caller: BusCaller, files: Objects, feed: RunFeed, *, artifact_bytes: int) -> None:
        self._caller = caller
        self._files = files
        self._feed = feed
        self._artifact_bytes = artifact_bytes

    async def run(self, name: str, project: str, body: RunBody) -> RunReply:
        """Run an action; how the run ended is in the reply.

        Raises:
            RequestError: It was not run, or what it gave could not be fetched.
        """
        async with self._staged(body.files) as files:
            ran = await self._run(_request(name, project, body, files))
        return await self._reply(ran)

    async def follow(self, name: str, project: str, body: RunBody) -> AsyncGenerator[RunEvent | RunReply]:
        """The same, with what the run does while it goes on before the reply. Closed before, it ends the run.

        Raises:
            RequestError: As `run`; at first when it was not run.
        """
        async with self._staged(body.files) as files:
            request = _request(name, project, body, files).model_copy(update={"stream": True})
            async with self._feed.listen(request.run_id or "") as events:
                running = asyncio.create_task(self._run(request))
                try:
                    async for event in until_the_end(events, running):
                        yield event
                    ran = await running
                finally:
                    running.cancel()
                    await asyncio.wait([running])
        yield await self._reply(ran)

    async def artifact(self, run_id: str, name: str) -> StoredObject:
        """A file of a run, while the object store keeps it.

        Raises:
            RequestError: `invalid_request`, `not_found`, or `payload_too_large`.
        """
        if not _RUN_ID.fullmatch(run_id) or not _ARTIFACT_NAME.fullmatch(name):
            raise RequestError(ErrorCode.INVALID_REQUEST, "That is not the id of a run and the name of its artifact.")
        return await self._files.open(f"{run_id}/{_ARTIFACTS}{name}", self._artifact_bytes)

    async def _run(self, request: RunSkill) -> SkillRan:
        wait_s = max(RUN_SKILL.timeout_s, (request.timeout_s or 0) + _MARGIN_S)
        try:
            return await self._caller.call(RUN_SKILL, request, timeout_s=wait_s)
        except asyncio.CancelledError:
            await cancel_for_good(self._caller, RunSelector(project=request.project, run_id=request.run_id or ""))
            raise

    @asynccontextmanager
    async def _staged(self, files: dict[str, bytes]) -> AsyncGenerator[dict[str, Content]]:
        """The files as contents; those that are put into the object store are gone when the run is over."""
        if sum(map(len, files.values())) <= INLINE_BYTES:
            yield {name: _inline(data) for name, data in files.items()}
            return
        folder = f"in/{uuid.uuid4().hex}"
        staged: dict[str, Content] = {}
        try:
            for number, (name, data) in enumerate(files.items()):
                staged[name] = await asyncio.to_thread(_reference, data, f"{folder}/{number}")
                await self._files.put(f"{folder}/{number}", data)
            yield staged
        finally:
            await self._unstage(staged)

    async def _unstage(self, staged: dict[str, Content]) -> None:
        for content in staged.values():
            try:
                await self._files.delete(content.object_name or "")
            except RequestError as error:
                # The bucket forgets it after a day, and the run's outcome is what the caller waits for.
                log.warning("run_input_left", name=content.object_name, code=error.code)
                return

    async def _reply(self, ran: SkillRan) -> RunReply:
        return RunReply(
            run_id=ran.run_id,
            status=ran.status,
            exit_code=ran.exit_code,
            stdout=await self._text(ran.stdout),
            stderr=await self._text(ran.stderr),
            result=ran.result,
            artifacts=tuple([await self._artifact(ran.run_id, artifact) for artifact in ran.artifacts]),
            duration_ms=ran.duration_ms,
            truncated=ran.truncated,
            isolation=ran.isolation,
            detail=ran.detail,
            limits=ran.limits,
            used=ran.used,
        )

    async def _text(self, content: Content) -> str:
        return (await self._bytes(content, OUTPUT_BYTES)).decode("utf-8", "replace")

    async def _artifact(self, run_id: str, artifact: Artifact) -> RunArtifact:
        content = artifact.content
        data = await self._bytes(content, ARTIFACT_BYTES) if content.size_bytes <= ARTIFACT_BYTES else None
        return RunArtifact(
            name=artifact.name,
            size_bytes=content.size_bytes,
            sha256=content.sha256,
            content=data,
            url=_url(run_id, content.object_name),
        )

    async def _bytes(self, content: Content, max_bytes: int) -> bytes:
        if content.inline is not None:
            return content.inline
        return await self._files.get(content.object_name or "", max_bytes)


def _request(name: str, project: str, body: RunBody, files: dict[str, Content]) -> RunSkill:
    return RunSkill(
        project=project,
        name=name,
        action=body.action,
        args=body.args,
        argv=body.argv,
        stdin=body.stdin,
        files=files,
        timeout_s=body.timeout_s,
        run_id=body.run_id or uuid.uuid4().hex,
    )


def _inline(data: bytes) -> Content:
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), inline=data)


def _reference(data: bytes, object_name: str) -> Content:
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), object_name=object_name)


def _url(run_id: str, object_name: str | None) -> str | None:
    """Where an artifact can be fetched, if it is in the object store."""
    prefix = f"{run_id}/{_ARTIFACTS}"
    if object_name is None or not object_name.startswith(prefix):
        return None
    return f"/api/runs/{run_id}/artifacts/{quote(object_name.removeprefix(prefix))}"
