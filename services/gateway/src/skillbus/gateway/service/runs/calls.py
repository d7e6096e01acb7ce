"""Calls of tools of every type, and the files that they return."""

from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response

from skillbus.contracts.agent.tool_calls import CALL_TOOL, ToolCalled
from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.sandbox.skill_runs import RunId
from skillbus.gateway.domain.runs.tool_calls import CallBody, RemoteToolCaller, link_files
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery
from skillbus.gateway.service.event_stream import EVENT_STREAM
from skillbus.gateway.service.runs.disconnection import CLIENT_CLOSED_REQUEST, CallerLeftError, await_while_connected
from skillbus.gateway.service.runs.run_stream import RunParts, open_run_stream
from skillbus.gateway.service.runs.skill_runs import FileResponse, make_file_response
from skillbus.gateway.service.tools import TOOL_PATH, ToolInPath

_FILE: Final = "/api/calls/{run_id}/files/{name}"
_REPLY: Final[Documented] = {HTTPStatus.OK.value: {"model": ToolCalled, "content": {EVENT_STREAM: {}}}}


@dataclass(frozen=True, slots=True)
class CallRoutes:
    """Handlers of calls."""

    calls: RemoteToolCaller

    async def call_tool(
        self,
        tool_id: ToolInPath,
        body: CallBody,
        request: Request,
        project: ProjectInQuery = DEFAULT_PROJECT,
        stream: Annotated[bool, Query(description="The same as `Accept: text/event-stream`.")] = False,
    ) -> Response:
        """Call a tool of any type. A failure of the tool is a normal reply: see `is_error`.

        Files, images and sounds are parts of type `resource_link`; their `uri` is a path of this API.

        With `Accept: text/event-stream` or `stream`, the reply is a stream of Server-Sent Events: for a skill `begun`
        with the id of the run and `output` for each piece of output, and last `reply` with the usual reply or `error`
        with a problem document. If the caller closes the connection, the call is cancelled.
        """
        try:
            if stream or EVENT_STREAM in request.headers.get("accept", ""):
                return await open_run_stream(request, self._follow_tool(tool_id, project, body))
            called = await await_while_connected(request, self.calls.call_tool(tool_id, project, body))
        except CallerLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return Response(link_files(called, project).model_dump_json(), media_type="application/json")

    async def _follow_tool(self, tool_id: str, project: str, body: CallBody) -> RunParts[ToolCalled]:
        async with aclosing(self.calls.follow_tool(tool_id, project, body)) as parts:
            async for part in parts:
                yield link_files(part, project) if isinstance(part, ToolCalled) else part

    async def get_call_file(
        self,
        run_id: Annotated[RunId, Path()],
        name: str,
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> Response:
        """Fetch a file, an image or a sound that a tool of an MCP server returned, for one day."""
        return make_file_response(await self.calls.open_file(run_id, project, name), name)


def add_call_routes(router: DocumentedRouter, routes: CallRoutes) -> None:
    """Add the routes of calls."""
    example: dict[str, object] = {"arguments": {"expression": "(1 + 2) * 3"}}
    file_errors = (*ANY_REQUEST, ErrorCode.NOT_FOUND, ErrorCode.PAYLOAD_TOO_LARGE)
    # The reply is documented as a model and not derived, because it can be a stream.
    calls = router.with_replies(_REPLY).for_runs()
    calls.add("POST", f"{TOOL_PATH}/call", Role.RUNNER, routes.call_tool, CALL_TOOL.errors, example=example)
    router.add("GET", _FILE, Role.READER, routes.get_call_file, file_errors, response=FileResponse)
