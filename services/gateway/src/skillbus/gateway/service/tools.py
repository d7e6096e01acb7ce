"""Tools of every type: the catalogue, descriptions by others, and search."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response
from starlette.requests import ClientDisconnect

from skillbus.common.tools.function_names import encode_name
from skillbus.common.tools.hit_functions import describe_hits
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import ToolReference, ToolSearchBody, ToolSearchReply, ToolsImported
from skillbus.contracts.indexer.tool_approval import SET_TOOL_APPROVAL, SetToolApproval
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS
from skillbus.contracts.indexer.tools import (
    ACCEPT_TOOL,
    GET_TOOL,
    LIST_TOOLS,
    MAX_IDS,
    MCP_SOURCE_PREFIX,
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
from skillbus.contracts.message import DEFAULT_PROJECT, Message
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.gateway.domain.access.principal import Principal, get_caller
from skillbus.gateway.domain.imports.tool_importer import (
    ToolImporter,
    ToolImportOptions,
    explain_reserved,
    is_reserved,
)
from skillbus.gateway.domain.model_tools import make_schema
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter, ProjectInQuery, make_json_response

_TOOLS: Final = "/api/tools"
TOOL_PATH: Final = f"{_TOOLS}/{{id:path}}"
"""Ids contain slashes and other characters. Actions on a tool follow its id."""
ToolInPath = Annotated[
    ToolId,
    Path(alias="id", description="Id of the tool. Slashes need no escaping: `mcp:files/read_file`."),
]


class AcceptBody(Message):
    """Accepted description."""

    digest: str
    """`pending_digest` of the tool, or its `digest` if it has no pending description."""


class ApprovalBody(Message):
    """Decision about the approval of a tool's calls."""

    required: bool
    """True lets agents call the tool only when a person approves the call."""


@dataclass(frozen=True, slots=True)
class ToolRoutes:
    """Handlers of tools."""

    caller: BusCaller
    importer: ToolImporter

    async def search_tools(self, body: ToolSearchBody) -> Response:
        """Find the few tools that fit a query in any language. If nothing fits, `results` is empty.

        With `format`, the reply also has `tools`: the schemas of the callable results, to be passed to a model. With
        `functions`, each result has its functions, for programs that make schemas themselves.
        """
        wanted = body.functions or body.format is not None
        request = SearchTools.model_construct(**{**dict(body), "functions": wanted})
        if not wanted:  # nothing is added to what was found: it is not even parsed
            return make_json_response(_append_no_schemas(await self.caller.call_for_json(SEARCH_TOOLS, request)))
        found = await self.caller.call(SEARCH_TOOLS, request)
        described = await describe_hits(partial(self.caller.call, DESCRIBE_TOOLS), body.project, found.results)
        shown = described if body.functions else {}
        hits = tuple(hit.model_copy(update={"functions": shown.get(hit.id)}) for hit in found.results)
        reply = ToolSearchReply.model_construct(**{**dict(found), "results": hits})
        if body.format is None:
            return make_json_response(reply)
        functions = [function for each in described.values() for function in each]
        references = [ToolReference(id=function.id, action=function.action) for function in functions]
        names = {encode_name(reference): reference for reference in references}
        schemas = (make_schema(name, one, body.format) for name, one in zip(names, functions, strict=True))
        return make_json_response(reply.model_copy(update={"tools": tuple(schemas), "names": names}))

    async def put_tools(self, request: Request, options: Annotated[ToolImportOptions, Query()]) -> ToolsImported:
        """Add or update tool descriptions. The body is NDJSON, one description per line, or one JSON array.

        The body is processed while it arrives, up to 64 MiB and 200,000 lines. An invalid line, or one over 512 KiB, is
        reported by its number, and the other lines are imported. Unchanged tools are not embedded again.
        """
        try:
            return await self.importer.import_body(request.stream(), options)
        except ClientDisconnect as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The body is incomplete.") from error

    async def list_tools(self, page: Annotated[ListTools, Query()]) -> ToolsListed:
        """List one page of the catalogue by id, including skills. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_TOOLS, page)

    async def remove_tools(
        self,
        request: Request,
        ids: Annotated[
            list[ToolId] | None, Query(alias="id", max_length=MAX_IDS, description="Tools to remove.")
        ] = None,
        source: Annotated[ToolSource | None, Query(description="Remove only tools of this source.")] = None,
        project: ProjectInQuery = DEFAULT_PROJECT,
    ) -> ToolsRemoved:
        """Remove tools from the catalogue and the index: every `id`, which may be repeated, or all of a `source`.

        Tools of MCP servers need the role `admin`: a removed tool would leave quarantine.
        """
        if not ids and source is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Name the tools to remove: `source`, or `id` once or more.")
        if source is not None and is_reserved(source):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"{explain_reserved(source)}. Remove an MCP server to remove its tools; uninstall a skill.",
            )
        _check_removal(get_caller(request.scope), ids or ())
        removal = RemoveTools(project=project, ids=tuple(ids or ()), source=source)
        return await self.caller.call(REMOVE_TOOLS, removal)

    async def get_tool(self, tool_id: ToolInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """Return one tool with its findings and, if it is in quarantine, its pending description."""
        return await self.caller.call(GET_TOOL, GetTool(project=project, id=tool_id))

    async def remove_tool(
        self, request: Request, tool_id: ToolInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> ToolsRemoved:
        """Remove one tool from the catalogue and the index. A tool of an MCP server needs the role `admin`."""
        _check_removal(get_caller(request.scope), (tool_id,))
        removed = await self.caller.call(REMOVE_TOOLS, RemoveTools(project=project, ids=(tool_id,)))
        if not removed.ids:
            raise RequestError(ErrorCode.NOT_FOUND, f"There is no tool {tool_id!r} that can be removed.")
        return removed

    async def accept_tool(
        self, tool_id: ToolInPath, body: AcceptBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> CatalogueTool:
        """Accept the description of a quarantined tool. A description that has changed since is a conflict."""
        return await self.caller.call(ACCEPT_TOOL, AcceptTool(project=project, id=tool_id, digest=body.digest))

    async def enable_tool(self, tool_id: ToolInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """Enable a disabled tool: it is found and called again."""
        return await self.caller.call(SET_TOOL_STATE, SetToolState(project=project, id=tool_id, enabled=True))

    async def disable_tool(self, tool_id: ToolInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> CatalogueTool:
        """Disable a tool: it is neither found nor called, also after a new description."""
        return await self.caller.call(SET_TOOL_STATE, SetToolState(project=project, id=tool_id, enabled=False))

    async def set_tool_approval(
        self, tool_id: ToolInPath, body: ApprovalBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> CatalogueTool:
        """Decide whether an agent's calls of a tool or a skill wait for the approval of a person.

        The decision stays when the tool is described again. Calls that a person makes are not stopped.
        """
        request = SetToolApproval(project=project, id=tool_id, required=body.required)
        return await self.caller.call(SET_TOOL_APPROVAL, request)


def _append_no_schemas(found: bytes) -> bytes:
    """Return the JSON of `ToolsFound` as that of a `ToolSearchReply` without schemas."""
    return found.removesuffix(b"}") + b',"tools":[],"names":{}}'


def _check_removal(caller: Principal, ids: Iterable[str]) -> None:
    """Raise RequestError (`forbidden`) unless the caller may remove these tools.

    A tool of an MCP server is listed again, and what it says then counts as accepted. So removing it is a way out of
    quarantine, which is the administrators'.
    """
    if any(tool_id.startswith(MCP_SOURCE_PREFIX) for tool_id in ids):
        caller.check_role(Role.ADMIN)


_EXAMPLE: Final = {
    "id": "weather.forecast",
    "name": "forecast",
    "description": "Weather forecast of a city. 查询城市的天气预报。",
    "tags": ["weather"],
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "source": "weather",
}
_DESCRIPTIONS: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "One `ToolDescription` per line."},
                "example": f"{json.dumps(_EXAMPLE, ensure_ascii=False)}\n",
            },
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/ToolDescription"}},
                "example": [_EXAMPLE],
            },
        },
    }
}
"""Documentation of a body that the handler reads itself."""


def add_tool_routes(router: DocumentedRouter, routes: ToolRoutes) -> None:
    """Add the routes of tools."""
    state_errors, remove_errors = SET_TOOL_STATE.errors, (*REMOVE_TOOLS.errors, ErrorCode.NOT_FOUND)
    accepted: dict[str, object] = {"digest": "0" * 64}
    router.add(
        "POST",
        f"{_TOOLS}/search",
        Role.READER,
        routes.search_tools,
        SEARCH_TOOLS.errors,
        example=SEARCH_TOOLS.example,
        reply=ToolSearchReply,
    )
    router.add("PUT", _TOOLS, Role.EDITOR, routes.put_tools, PUT_TOOLS.errors, body=_DESCRIPTIONS)
    router.add("GET", _TOOLS, Role.READER, routes.list_tools, LIST_TOOLS.errors)
    router.add("DELETE", _TOOLS, Role.EDITOR, routes.remove_tools, REMOVE_TOOLS.errors)
    router.add("POST", f"{TOOL_PATH}/accept", Role.ADMIN, routes.accept_tool, ACCEPT_TOOL.errors, example=accepted)
    router.add("POST", f"{TOOL_PATH}/enable", Role.EDITOR, routes.enable_tool, state_errors)
    router.add("POST", f"{TOOL_PATH}/disable", Role.EDITOR, routes.disable_tool, state_errors)
    router.add(
        "POST",
        f"{TOOL_PATH}/approval",
        Role.ADMIN,
        routes.set_tool_approval,
        SET_TOOL_APPROVAL.errors,
        example={"required": True},
    )
    router.add("GET", TOOL_PATH, Role.READER, routes.get_tool, GET_TOOL.errors)
    router.add("DELETE", TOOL_PATH, Role.EDITOR, routes.remove_tool, remove_errors)
