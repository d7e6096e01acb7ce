"""Runs of skills over HTTP: text and base64 instead of contents in the object store.

The events of a run are passed on while it lasts. A run that nobody waits for is cancelled.
"""

import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Final, Self
from urllib.parse import quote

from pydantic import Field, JsonValue, model_validator

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import RunArtifact, RunReply
from skillbus.contracts.message import DEFAULT_PROJECT, Content, Message
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, RunEvent, RunSelector
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, Artifact, RunId, RunSkill, SkillRan
from skillbus.gateway.domain.ports import BusCaller, ObjectFiles, OpenedObject, OpenRunFeed
from skillbus.gateway.domain.runs.following import CANCEL_TIMEOUT_S, FollowedWork, WorkFollower
from skillbus.gateway.domain.runs.input_files import FILES_MAX, InputFiles, stage_files

OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Largest output of one stream: the highest limit that the sandbox can be set to."""
ARTIFACT_BYTES: Final = 1024 * 1024
"""Largest artifact inside the reply."""
_ARTIFACTS: Final = "out/"
"""The sandbox stores artifacts as `<run id>/out/<name>`."""
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}")
_ARTIFACT_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,512}")


class RunBody(Message):
    """Run of one action of a skill."""

    action: str | None = None
    """Action, or path of a script. Absent means the default action."""
    args: dict[str, JsonValue] | None = None
    """Arguments by name, validated against the action's input schema."""
    argv: Annotated[tuple[str, ...], Field(max_length=256, fail_fast=True)] | None = None
    """Command-line arguments that are passed on unchanged, instead of `args`."""
    stdin: str | None = None
    """Standard input. Not allowed for actions that receive their arguments there."""
    files: InputFiles = Field(default_factory=dict, max_length=FILES_MAX)
    """Input files by name, in base64. The run can read them in the folder `$SKILLBUS_IN`."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Wall-clock limit, in seconds. Absent means the skill's limit, which cannot be exceeded."""
    run_id: RunId | None = None
    """Id of the run, for cancelling it. Absent means that the gateway chooses one. A known id is refused."""

    @model_validator(mode="after")
    def _one_kind_of_arguments(self) -> Self:
        if self.args is not None and self.argv is not None:
            raise ValueError("give either `args` or `argv`")
        return self


class RemoteSkillRunner:
    """Runs skills and fetches their output. If the caller is cancelled, the run is cancelled too."""

    def __init__(self, caller: BusCaller, files: ObjectFiles, open_feed: OpenRunFeed, *, artifact_bytes: int) -> None:
        self._caller = caller
        self._files = files
        self._follower = WorkFollower(caller, open_feed)
        self._artifact_bytes = artifact_bytes

    async def run_skill(self, name: str, project: str, body: RunBody) -> RunReply:
        """Run an action and return its result, also if the program failed.

        Raises:
            RequestError: The skill was not run, or its output could not be fetched.
        """
        async with stage_files(self._files, body.files) as files:
            ran = await self._follower.await_reply(self._make_work(name, project, body, files))
        return await self._make_reply(ran, project)

    async def follow_skill(self, name: str, project: str, body: RunBody) -> AsyncGenerator[RunEvent | RunReply]:
        """Run an action and yield its events, then its result. Closing the generator early cancels the run.

        Raises:
            RequestError: As in `run_skill`; before the first event if the skill was not run.
        """
        async with stage_files(self._files, body.files) as files:
            work = self._make_work(name, project, body, files, stream=True)
            following = self._follower.follow_work(work)
            async with aclosing(following) as parts:
                async for part in parts:
                    yield await self._make_reply(part, project) if isinstance(part, SkillRan) else part

    async def open_artifact(self, run_id: str, name: str) -> OpenedObject:
        """Open a file of a run, while the object store keeps it.

        Raises:
            RequestError: `invalid_request`, `not_found`, or `payload_too_large`.
        """
        if not _RUN_ID.fullmatch(run_id) or not _ARTIFACT_NAME.fullmatch(name):
            raise RequestError(ErrorCode.INVALID_REQUEST, "The path is not the id of a run and the name of a file.")
        return await self._files.open(f"{run_id}/{_ARTIFACTS}{name}", self._artifact_bytes)

    def _make_work(
        self, name: str, project: str, body: RunBody, files: dict[str, Content], *, stream: bool = False
    ) -> FollowedWork[RunSkill, SkillRan]:
        run_id = body.run_id or uuid.uuid4().hex
        fields = {**dict(body), "files": files, "run_id": run_id, "run_id_is_new": body.run_id is None}
        request = RunSkill(project=project, name=name, stream=stream, **fields)
        cancel = partial(self._cancel, RunSelector(project=project, run_id=run_id))
        return FollowedWork(RUN_SKILL, request, run_id, body.timeout_s, cancel)

    async def _cancel(self, run: RunSelector) -> bool:
        try:
            await self._caller.call(CANCEL_RUN, run, timeout_s=CANCEL_TIMEOUT_S)
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return False
        return True

    async def _make_reply(self, ran: SkillRan, project: str) -> RunReply:
        stdout = (await self._fetch(ran.stdout, OUTPUT_BYTES)).decode("utf-8", "replace")
        stderr = (await self._fetch(ran.stderr, OUTPUT_BYTES)).decode("utf-8", "replace")
        artifacts = [await self._make_artifact(ran.run_id, artifact, project) for artifact in ran.artifacts]
        return RunReply(**{**dict(ran), "stdout": stdout, "stderr": stderr, "artifacts": tuple(artifacts)})

    async def _make_artifact(self, run_id: str, artifact: Artifact, project: str) -> RunArtifact:
        content = artifact.content
        data = await self._fetch(content, ARTIFACT_BYTES) if content.size_bytes <= ARTIFACT_BYTES else None
        prefix = f"{run_id}/{_ARTIFACTS}"
        url = None
        if content.object_name is not None and content.object_name.startswith(prefix):
            url = f"/api/runs/{run_id}/artifacts/{quote(content.object_name.removeprefix(prefix))}"
            if project != DEFAULT_PROJECT:
                url += f"?project={project}"
        return RunArtifact(
            name=artifact.name, size_bytes=content.size_bytes, sha256=content.sha256, content=data, url=url
        )

    async def _fetch(self, content: Content, max_bytes: int) -> bytes:
        if content.inline is not None:
            return content.inline
        return await self._files.get(content.object_name or "", max_bytes)
