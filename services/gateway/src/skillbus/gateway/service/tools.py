"""Tools of any kind: what the catalogue has, what others describe, search and calls."""

import json
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Query, Request
from pydantic import Field, JsonValue
from starlette.requests import ClientDisconnect

from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolsImported
from skillbus.contracts.indexer.tools import (
    ACCEPT_TOOL,
    GET_TOOL,
    LIST_TOOLS,
    MAX_IDS,
    PUT_TOOLS,
    REMOVE_TOOLS,
    SET_TOOL_STATE,
    AcceptTool,
    CatalogueTool,
    GetTool,
    ListTools,
    RemoveTools,
    SetToolState,
    ToolId,
    ToolsListed,
    ToolSource,
    ToolsRemoved,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.gateway.domain.imports.tool_importer import ImportWishes, ToolImporter, is_reserved, reserved
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_TOOLS: Final = "/api/tools"
_TOOL: Final = f"{_TOOLS}/{{id:path}}"
"""Ids hold slashes and whatever else; what is done with a tool stands behind the last one."""
_SKILL: Final = "skill:"
IdInPath = Annotated[
    ToolId,
    Path(alias="id", description="The tool's id; slashes may stand as they are: `mcp:files/read_file`."),
]
ProjectInQuery = Annotated[Project, Query()]


class AcceptBody(Message):
    """What is accepted."""

    digest: str
    """`pending_digest` of the tool as it was looked at, or `digest` of one that is quarantined since it came."""


class CallBody(Message):
    """A call."""

    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """By name, as the tool's `parameters` want them."""


@dataclass(frozen=True, slots=True)
class ToolRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    importer: ToolImporter

    async def search_tools(self, body: SearchTools) -> ToolsFound:
        """Find the few tools that fit a request, in any language. When nothing fits, nothing comes back."""
        return await self.caller.call(SEARCH_TOOLS, body)

    async def put_tools(self, request: Request, wishes: Annotated[ImportWishes, Query()]) -> ToolsImported:
        """Describe tools, new ones or known ones again: NDJSON, a description a line, or one JSON array of them.

        The body is read as it comes, up to 64 MiB of it and 200,000 lines. A line that is bad, or longer than 512 KiB,
        is told by its number, and the others are taken. What did not change is not embedded again.
        """
        try:
            return await self.importer.take(request.stream(), wishes)
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body broke off.") from error

    async def list_tools(self, page: Annotated[ListTools, Query()]) -> ToolsListed:
        """A page of the catalogue by id, skills too. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_TOOLS, page)

    async def remove_tools(
        self,
        ids: Annotated[list[ToolId] | None, Query(alias="id", max_length=MAX_IDS)] = None,
        source: Annotated[ToolSource | None, Query()] = None,
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> ToolsRemoved:
        """Take tools out of the catalogue and the index: all of a `source`, or each `id`, which may be repeated."""
        if not ids and source is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Say what is removed: `source`, or `id` once or more.")
        if source is not None and is_reserved(source):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"{reserved(source)}. An MCP server is removed with its tools, a skill is uninstalled.",
            )
        removal = RemoveTools(project=project, ids=tuple(ids or ()), source=source)
        return await self.caller.call(REMOVE_TOOLS, removal)

    async def get_tool(self, tool_id: IdInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """One tool: how it is described, what was found in it, and what it would become if it is quarantined."""
        return await self.caller.call(GET_TOOL, GetTool(project=project, id=tool_id))

    async def remove_tool(self, tool_id: IdInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> ToolsRemoved:
        """Take one tool out of the catalogue and the index."""
        removed = await self.caller.call(REMOVE_TOOLS, RemoveTools(project=project, ids=(tool_id,)))
        if not removed.ids:
            raise RequestError(ErrorCode.NOT_FOUND, f"There is no tool {tool_id!r} that can be removed.")
        return removed

    async def accept_tool(
        self, tool_id: IdInPath, body: AcceptBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> CatalogueTool:
        """Accept a quarantined tool as it was looked at; if it is described otherwise since, that is a conflict."""
        return await self.caller.call(ACCEPT_TOOL, AcceptTool(project=project, id=tool_id, digest=body.digest))

    async def enable_tool(self, tool_id: IdInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """Have a disabled tool found and called again."""
        return await self.caller.call(SET_TOOL_STATE, SetToolState(project=project, id=tool_id, enabled=True))

    async def disable_tool(self, tool_id: IdInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """Have a tool neither found nor called; it stays so when it is described again."""
        return await self.caller.call(SET_TOOL_STATE, SetToolState(project=project, id=tool_id, enabled=False))

    async def call_tool(
        self, tool_id: IdInPath, body: CallBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> ToolCalled:
        """Call an MCP or a builtin tool. That it fails is an answer too: see `is_error`. Skills are run instead."""
        if tool_id.startswith(_SKILL):
            path = f"/api/skills/{tool_id.removeprefix(_SKILL)}/run"
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{tool_id!r} is a skill, which is run: POST {path}.")
        request = CallTool(project=project, id=tool_id, arguments=body.arguments)
        return await self.caller.call(CALL_TOOL, request)


_EXAMPLE: Final = {
    "id": "weather.forecast",
    "name": "forecast",
    "description": "Weather forecast of a city. 查询城市的天气预报。",
    "tool_type": "builtin",
    "tags": ["weather"],
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "source": "weather",
}
_DESCRIPTIONS: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "A `ToolDescription` a line."},
                "example": f"{json.dumps(_EXAMPLE, ensure_ascii=False)}\n",
            },
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/ToolDescription"}},
                "example": [_EXAMPLE],
            },
        },
    }
}
"""As the handler reads the body itself, the documentation cannot know it."""


def add_tool_routes(to: DocumentedRouter, routes: ToolRoutes) -> None:
    """Put them under their paths."""
    found, put, state = SEARCH_TOOLS, (*PUT_TOOLS.errors, *WITH_BODY), SET_TOOL_STATE
    accept_errors, call_errors = (*ACCEPT_TOOL.errors, *WITH_BODY), (*CALL_TOOL.errors, *WITH_BODY)
    remove_errors = (*REMOVE_TOOLS.errors, ErrorCode.NOT_FOUND)
    accepted: dict[str, object] = {"digest": "0" * 64}
    call: dict[str, object] = {"arguments": {"expression": "(1 + 2) * 3"}}
    to.add("POST", f"{_TOOLS}/search", routes.search_tools, (*found.errors, *WITH_BODY), example=found.example)
    to.add("PUT", _TOOLS, routes.put_tools, put, body=_DESCRIPTIONS)
    to.add("GET", _TOOLS, routes.list_tools, LIST_TOOLS.errors)
    to.add("DELETE", _TOOLS, routes.remove_tools, REMOVE_TOOLS.errors)
    to.add("POST", f"{_TOOL}/accept", routes.accept_tool, accept_errors, example=accepted)
    to.add("POST", f"{_TOOL}/enable", routes.enable_tool, state.errors)
    to.add("POST", f"{_TOOL}/disable", routes.disable_tool, state.errors)
    to.add("POST", f"{_TOOL}/call", routes.call_tool, call_errors, example=call)
    to.add("GET", _TOOL, routes.get_tool, GET_TOOL.errors)
    to.add("DELETE", _TOOL, routes.remove_tool, remove_errors)
