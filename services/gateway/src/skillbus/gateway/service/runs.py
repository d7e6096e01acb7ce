"""Runs of skills: beginning them, following and ending them, and what is left of them."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from starlette.responses import StreamingResponse

from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.http import RunReply
from skillbus.contracts.message import DEFAULT_PROJECT, Empty, Project, SkillName
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
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.runs.runner import RunBody, SkillRunner
from skillbus.gateway.service.disconnection import CallerLeftError, while_connected
from skillbus.gateway.service.documented_router import WITH_BODY, Documented, DocumentedRouter, problems
from skillbus.gateway.service.run_stream import EVENT_STREAM, RunStream, first_part

NameInPath = Annotated[SkillName, Path()]
RunInPath = Annotated[RunId, Path()]
ProjectInQuery = Annotated[Project, Query()]
_CLIENT_CLOSED_REQUEST: Final = 499
"""What nginx logs for it; nobody gets this answer."""


class FileResponse(StreamingResponse):
    """Bytes to be saved: no browser shows or runs them."""

    media_type = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class RunRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    runner: SkillRunner

    async def run_skill(
        self,
        name: NameInPath,
        body: RunBody,
        request: Request,
        project: ProjectInQuery = DEFAULT_PROJECT,
        stream: Annotated[bool, Query(description="The same as `Accept: text/event-stream`.")] = False,
    ) -> Response:
        """Run an action of a skill in the sandbox. A run that fails is an answer too: see `status`.

        With `Accept: text/event-stream` or `stream` the answer comes as Server-Sent Events: `begun` with the run's id,
        `output` for what it prints, as it prints it, and last `reply` with what is answered otherwise, or `error` with
        a problem document. A caller that hangs up ends its run.
        """
        try:
            if stream or EVENT_STREAM in request.headers.get("accept", ""):
                parts = self.runner.follow(name, project, body)
                first = await while_connected(request, first_part(parts))
                return RunStream(first, parts, request.url.path)
            reply = await while_connected(request, self.runner.run(name, project, body))
        except CallerLeftError:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        return Response(reply.model_dump_json(), media_type="application/json")

    async def list_runs(self, page: Annotated[ListRuns, Query()]) -> RunsListed:
        """The runs of the last day, the newest first. `next` is the `after` of the next page, while there is one."""
        return await self.caller.call(LIST_RUNS, page)

    async def get_run(self, run_id: RunInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> RunRecord:
        """What is remembered of a run: its state, its limits, what it used, and which files it left."""
        return await self.caller.call(GET_RUN, RunSelector(project=project, run_id=run_id))

    async def cancel_run(self, run_id: RunInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> RunCancelled:
        """End a run. Whoever asked for it is answered with what it gave so far; what is remembered of it stays."""
        return await self.caller.call(CANCEL_RUN, RunSelector(project=project, run_id=run_id))

    async def get_artifact(self, run_id: str, name: str) -> Response:
        """A file that a run left. Whoever knows the run's id, which cannot be guessed, can fetch it."""
        stored = await self.runner.artifact(run_id, name)
        file_name = quote(name.rsplit("/", 1)[-1], safe="")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{file_name}",
            "Content-Length": str(stored.size_bytes),
            "X-Content-Type-Options": "nosniff",
        }
        return FileResponse(stored.pieces, headers=headers)

    async def get_limits(self) -> SandboxLimits:
        """The limits of runs, how they are isolated here, and how many there are now."""
        return await self.caller.call(GET_LIMITS, Empty())


def add_run_routes(to: DocumentedRouter, routes: RunRoutes) -> None:
    """Put them under their paths."""
    reply: Documented = {HTTPStatus.OK.value: {"model": RunReply, "content": {EVENT_STREAM: {}}}}
    to.router.add_api_route(
        "/api/skills/{name}/run",
        routes.run_skill,
        methods=["POST"],
        responses={**reply, **problems((*RUN_SKILL.errors, *WITH_BODY))},
        operation_id=routes.run_skill.__name__,
    )
    to.add("GET", "/api/runs", routes.list_runs, LIST_RUNS.errors)
    to.add("GET", "/api/runs/{run_id}", routes.get_run, GET_RUN.errors)
    to.add("DELETE", "/api/runs/{run_id}", routes.cancel_run, CANCEL_RUN.errors)
    artifact_errors = (*ANY_REQUEST, ErrorCode.NOT_FOUND, *WITH_BODY)
    to.add(
        "GET", "/api/runs/{run_id}/artifacts/{name:path}", routes.get_artifact, artifact_errors, response=FileResponse
    )
    to.add("GET", "/api/limits", routes.get_limits, GET_LIMITS.errors)
