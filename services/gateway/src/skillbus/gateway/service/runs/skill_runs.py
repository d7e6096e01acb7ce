"""Runs of skills: start, follow, cancel, list, and fetch their files."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from starlette.responses import StreamingResponse

from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import RunReply
from skillbus.contracts.message import DEFAULT_PROJECT, Empty
from skillbus.contracts.sandbox.run_history import (
    CANCEL_RUN,
    GET_RUN,
    LIST_RUNS,
    ListRuns,
    RunCancelled,
    RunRecord,
    RunSelector,
    RunsListed,
)
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, RUN_SKILL, RunId, SandboxLimits
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller, OpenedObject
from skillbus.gateway.domain.runs.run_watcher import RunWatcher
from skillbus.gateway.domain.runs.skill_runner import RemoteSkillRunner, RunBody
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery, SkillInPath
from skillbus.gateway.service.event_stream import EVENT_STREAM, PartStream, open_part_stream
from skillbus.gateway.service.runs.disconnection import CLIENT_CLOSED_REQUEST, CallerLeftError, await_while_connected
from skillbus.gateway.service.runs.run_stream import WatchedRunWriter, open_run_stream

_RUNS: Final = "/api/runs"
_RUN: Final = f"{_RUNS}/{{run_id}}"
_ARTIFACT: Final = f"{_RUN}/artifacts/{{name:path}}"
RunInPath = Annotated[RunId, Path()]
_REPLY: Final[Documented] = {HTTPStatus.OK.value: {"model": RunReply, "content": {EVENT_STREAM: {}}}}


class FileResponse(StreamingResponse):
    """Bytes to save. Browsers neither display nor execute them."""

    media_type = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class RunRoutes:
    """Handlers of runs."""

    caller: BusCaller
    runner: RemoteSkillRunner
    watcher: RunWatcher

    async def run_skill(
        self,
        name: SkillInPath,
        body: RunBody,
        request: Request,
        project: ProjectInQuery = DEFAULT_PROJECT,
        stream: Annotated[bool, Query(description="The same as `Accept: text/event-stream`.")] = False,
    ) -> Response:
        """Run an action of a skill in the sandbox. A failed run is a normal reply: see `status`.

        With `Accept: text/event-stream` or `stream`, the reply is a stream of Server-Sent Events: `begun` with the id
        of the run, `output` for each piece of output, and last `reply` with the usual reply or `error` with a problem
        document. If the caller closes the connection, the run is cancelled.
        """
        try:
            if stream or EVENT_STREAM in request.headers.get("accept", ""):
                return await open_run_stream(request, self.runner.follow_skill(name, project, body))
            reply = await await_while_connected(request, self.runner.run_skill(name, project, body))
        except CallerLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return Response(reply.model_dump_json(), media_type="application/json")

    async def list_runs(self, page: Annotated[ListRuns, Query()]) -> RunsListed:
        """List the runs of the last day, newest first. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_RUNS, page)

    async def get_run(self, run_id: RunInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> RunRecord:
        """Return the record of a run: its state, limits, usage and artifacts."""
        return await self.caller.call(GET_RUN, RunSelector(project=project, run_id=run_id))

    async def watch_run(
        self, run_id: RunInPath, request: Request, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Follow a run that anybody started, as Server-Sent Events. Closing the connection does not end the run.

        `running` with the record, `output` for each piece of output from now on if the run was requested as a stream,
        and last `ended` with the record. If the sandbox is away in between, the last event is `error` with a problem
        document.
        """
        parts = self.watcher.watch_run(RunSelector(project=project, run_id=run_id))
        return await open_part_stream(parts, WatchedRunWriter(request.url.path))

    async def cancel_run(self, run_id: RunInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> RunCancelled:
        """Cancel a run. Its caller gets the output so far, and its record stays."""
        return await self.caller.call(CANCEL_RUN, RunSelector(project=project, run_id=run_id))

    async def get_artifact(
        self, run_id: RunInPath, name: str, request: Request, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Fetch a file that a run left, for one day. A key of single projects fetches only files of their runs."""
        if not get_caller(request.scope).has_all_projects:
            # The files of all projects are in one bucket, by the id of the run.
            await self.caller.call(GET_RUN, RunSelector(project=project, run_id=run_id))
        artifact = await self.runner.open_artifact(run_id, name)
        return make_file_response(artifact, name)

    async def get_limits(self) -> SandboxLimits:
        """Return the limits, the isolation level and the current load of the sandbox."""
        return await self.caller.call(GET_LIMITS, Empty())


def make_file_response(file: OpenedObject, name: str) -> FileResponse:
    """Return the reply with the bytes of a file. Browsers save it under the last part of its name."""
    file_name = quote(name.rsplit("/", 1)[-1], safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{file_name}",
        "Content-Length": str(file.size_bytes),
    }
    return FileResponse(file.pieces, headers=headers)


_EVENTS: Final[Documented] = {
    HTTPStatus.OK.value: {
        "content": {
            EVENT_STREAM: {
                "schema": {
                    "type": "string",
                    "description": "`running` and `ended` with a `RunRecord`, `output` with a `RunPrinted`.",
                }
            }
        }
    }
}
_EXAMPLE: Final = {"args": {"expression": "(1 + 2) * 3"}, "timeout_s": 10}


def add_run_routes(router: DocumentedRouter, routes: RunRoutes) -> None:
    """Add the routes of runs."""
    artifact_errors = (*ANY_REQUEST, ErrorCode.NOT_FOUND, ErrorCode.PAYLOAD_TOO_LARGE)
    # The reply is documented as a model and not derived, because it can be a stream.
    runs = router.with_replies(_REPLY).for_runs()
    runs.add("POST", "/api/skills/{name}/run", Role.RUNNER, routes.run_skill, RUN_SKILL.errors, example=_EXAMPLE)
    router.add("GET", _RUNS, Role.READER, routes.list_runs, LIST_RUNS.errors)
    router.add("GET", _RUN, Role.READER, routes.get_run, GET_RUN.errors)
    events = router.with_replies(_EVENTS).for_streams()
    events.add("GET", f"{_RUN}/events", Role.READER, routes.watch_run, GET_RUN.errors, response=PartStream)
    router.add("DELETE", _RUN, Role.RUNNER, routes.cancel_run, CANCEL_RUN.errors)
    router.add("GET", _ARTIFACT, Role.READER, routes.get_artifact, artifact_errors, response=FileResponse)
    router.add("GET", "/api/limits", Role.READER, routes.get_limits, GET_LIMITS.errors)
