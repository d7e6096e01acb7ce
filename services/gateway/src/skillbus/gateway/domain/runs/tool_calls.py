"""Calls of tools over HTTP: files in base64 instead of contents in the object store, and links instead of objects.

The output of a skill or a program is passed on while it runs. A call that nobody waits for is cancelled.
"""

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import quote

from pydantic import Field, JsonValue

from skillbus.contracts.agent.tool_calls import CALL_TOOL, CANCEL_CALL, CallSelector, CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import DEFAULT_PROJECT, Message
from skillbus.contracts.sandbox.program_runs import RUN_CODE
from skillbus.contracts.sandbox.run_history import RunEvent
from skillbus.contracts.sandbox.skill_runs import RunId
from skillbus.gateway.domain.ports import BusCaller, ObjectFiles, OpenedObject, OpenRunFeed
from skillbus.gateway.domain.runs.following import CANCEL_TIMEOUT_S, FollowedWork, WorkFollower
from skillbus.gateway.domain.runs.input_files import FILES_MAX, InputFiles, stage_files

SKILL_PREFIX: Final = "skill:"
_LINK: Final = re.compile(r"skillbus://(?P<place>runs|calls)/(?P<run_id>[0-9a-f]{32})/(?P<name>.+)")
_FOLDERS: Final = {"runs": "artifacts", "calls": "files"}
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/]{1,512}")


class CallBody(Message):
    """Call of a tool."""

    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments by name, validated against the tool's `parameters`, or against the schema of the skill's action."""
    action: str | None = None
    """Action of a skill. Absent means its default action. Other tools have none."""
    files: InputFiles = Field(default_factory=dict, max_length=FILES_MAX)
    """Input files of a skill by name, in base64. Other tools take none."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """Longest time that the tool may take, in seconds. Absent means the tool's own limit, which cannot be exceeded."""
    run_id: RunId | None = None
    """Id of the call; of a skill also the id of its run. Absent means that the gateway chooses one."""
    by_agent: bool = False
    """True if a model chose this call. A tool that needs an approval is then refused with `approval_required`. A call
    that a person makes needs none."""


class RemoteToolCaller:
    """Calls tools of every type. If the caller is cancelled, the call is cancelled too."""

    def __init__(self, caller: BusCaller, files: ObjectFiles, open_feed: OpenRunFeed, *, file_bytes: int) -> None:
        self._caller = caller
        self._files = files
        self._follower = WorkFollower(caller, open_feed)
        self._file_bytes = file_bytes

    async def call_tool(self, tool_id: str, project: str, body: CallBody) -> ToolCalled:
        """Call a tool and return its result, also if it reports a failure.

        Raises:
            RequestError: The tool was not called, or its result is not known.
        """
        async with self._open_work(tool_id, project, body) as work:
            return await self._follower.await_reply(work)

    async def follow_tool(self, tool_id: str, project: str, body: CallBody) -> AsyncGenerator[RunEvent | ToolCalled]:
        """Call a tool, and yield the output of a skill or a program as it comes, then the result.

        Closing the generator early cancels the call.

        Raises:
            RequestError: As in `call_tool`; before the first event if the tool was not called.
        """
        if not tool_id.startswith(SKILL_PREFIX) and tool_id != RUN_CODE:
            yield await self.call_tool(tool_id, project, body)
            return
        async with self._open_work(tool_id, project, body, stream=True) as work:
            following = self._follower.follow_work(work)
            async with aclosing(following) as parts:
                async for part in parts:
                    yield part

    async def open_file(self, run_id: str, project: str, name: str) -> OpenedObject:
        """Open a file of a call, while the object store keeps it.

        Raises:
            RequestError: `invalid_request`, `not_found`, or `payload_too_large`.
        """
        if not _NAME.fullmatch(name):
            raise RequestError(ErrorCode.INVALID_REQUEST, "The path does not end with the name of a file.")
        return await self._files.open(f"calls/{project}/{run_id}/{name}", self._file_bytes)

    @asynccontextmanager
    async def _open_work(
        self, tool_id: str, project: str, body: CallBody, *, stream: bool = False
    ) -> AsyncIterator[FollowedWork[CallTool, ToolCalled]]:
        run_id = body.run_id or uuid.uuid4().hex
        async with stage_files(self._files, body.files) as files:
            request = CallTool(
                project=project, id=tool_id, stream=stream, **{**dict(body), "files": files, "run_id": run_id}
            )
            cancel = partial(self._cancel, CallSelector(project=project, run_id=run_id))
            yield FollowedWork(CALL_TOOL, request, run_id, body.timeout_s, cancel)

    async def _cancel(self, call: CallSelector) -> bool:
        return (await self._caller.call(CANCEL_CALL, call, timeout_s=CANCEL_TIMEOUT_S)).ending


def link_files(called: ToolCalled, project: str) -> ToolCalled:
    """Return the result with paths of the HTTP API as the `uri` of its files."""
    return called.model_copy(update={"content": tuple(_link_file(part, project) for part in called.content)})


def _link_file(part: JsonValue, project: str) -> JsonValue:
    if not isinstance(part, Mapping) or part.get("type") != "resource_link":
        return part
    found = _LINK.fullmatch(str(part.get("uri")))
    if found is None:
        return part
    place = found["place"]
    path = f"/api/{place}/{found['run_id']}/{_FOLDERS[place]}/{quote(found['name'], safe='/%')}"
    return {**part, "uri": path if project == DEFAULT_PROJECT else f"{path}?project={project}"}
