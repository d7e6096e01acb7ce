"""The MCP server of the gateway: its tools and resources on the SDK's low-level server.

This module imports the SDK, which takes memory and a second. So it is imported with the first request.
"""

import asyncio
import base64
import json
import logging
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final
from urllib.parse import quote, unquote

import mcp.types as mcp
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS
from pydantic import AnyUrl, JsonValue, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.types import Scope

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.validation import describe_problems
from skillbus.gateway.adapters.mcp.inner_request import (
    CLIENT_LEFT,
    USER_APPROVED,
    InnerRequestError,
    ReplyTooLargeError,
    send_inner_request,
)
from skillbus.gateway.adapters.mcp.reply_form import ReplyForm
from skillbus.gateway.adapters.mcp.run_progress import ReportProgress
from skillbus.gateway.adapters.mcp.session_places import SESSION_IDLE_S, SessionPlaces
from skillbus.gateway.adapters.mcp.tools import INSTRUCTIONS, MCP_TOOLS, McpTool, McpToolResult

SESSIONS_MAX: Final = 1_000
_SDK_LOGGER: Final = "mcp"
_PATH: Final = re.compile(
    r"/api/(?P<place>runs|calls|skills)/(?P<owner>[^/?]+)/(artifacts|files)/(?P<name>[^?]+)(\?.*)?"
)
_URI: Final = re.compile(r"skillbus://(?P<place>runs|calls|skills)/(?P<owner>[a-z0-9-]{1,64})/(?P<name>.+)")
_FOLDERS: Final = {"runs": "artifacts", "calls": "files", "skills": "files"}
_INLINE_BYTES: Final = 1024 * 1024
"""Largest image or sound that a result holds itself."""
_RESOURCE_BYTES: Final = 4 * 1024 * 1024
"""Largest file that is read as a resource. It is in memory several times, as bytes, base64 and JSON."""
_SOUND_SINCE: Final = "2025-03-26"
_LINK_SINCE: Final = "2025-06-18"
"""Protocol revisions that brought parts of type `audio` and `resource_link`. Older clients get a line of text."""
_PAGE: Final = 100
_ASK_S: Final = 600.0
"""Longest wait for a user who is asked to approve a call."""
_ASKED_BYTES: Final = 64 * 1024
"""Largest arguments that a user is asked to approve."""
_PART: Final[TypeAdapter[mcp.ContentBlock]] = TypeAdapter(mcp.ContentBlock)
_TOOLS: Final = {tool.name: tool for tool in MCP_TOOLS}


def make_session_manager(max_body_bytes: int, places: SessionPlaces) -> StreamableHTTPSessionManager:
    """Return the manager of the MCP sessions over HTTP. It serves while its `run` context is open."""
    logging.getLogger(_SDK_LOGGER).setLevel(logging.CRITICAL)  # it logs what clients send, with tracebacks
    return StreamableHTTPSessionManager(
        _make_server(places),
        json_response=ReplyForm(),  # type: ignore[arg-type]  # tested for its truth with each request
        session_idle_timeout=SESSION_IDLE_S,
        max_request_body_size=max_body_bytes,
        max_sessions=SESSIONS_MAX,
    )


def _make_server(places: SessionPlaces) -> Server[dict[str, object], Request]:
    server: Server[dict[str, object], Request] = Server(
        "skillbus", version("skillbus-contracts"), instructions=INSTRUCTIONS, lifespan=places.hold_for_session
    )
    handlers = _Handlers(server)
    server.request_handlers = {
        **server.request_handlers,
        mcp.ListToolsRequest: handlers.list_tools,
        mcp.CallToolRequest: handlers.call_tool,
        mcp.ListResourcesRequest: handlers.list_resources,
        mcp.ListResourceTemplatesRequest: handlers.list_templates,
        mcp.ReadResourceRequest: handlers.read_resource,
    }
    return server


class _Handlers:
    """Handlers of the requests of MCP clients."""

    def __init__(self, server: Server[dict[str, object], Request]) -> None:
        self._server = server
        self._listed = mcp.ListToolsResult(tools=[_describe_tool(tool) for tool in MCP_TOOLS])

    async def list_tools(self, _: mcp.ListToolsRequest) -> mcp.ServerResult:
        return mcp.ServerResult(self._listed)

    async def call_tool(self, request: mcp.CallToolRequest) -> mcp.ServerResult:
        tool = _TOOLS.get(request.params.name)
        if tool is None:
            raise _make_error(mcp.INVALID_PARAMS, f"no tool {request.params.name[:100]!r}: {', '.join(_TOOLS)}")
        scope = self._get_scope()
        try:
            arguments = tool.arguments.model_validate(request.params.arguments or {})
            given: dict[str, JsonValue] = arguments.model_dump(mode="json", exclude_unset=True)
            try:
                result = await tool.use(scope, given, self._make_report())
            except InnerRequestError as error:
                if error.problem.code != ErrorCode.APPROVAL_REQUIRED or not self._can_ask_user(given):
                    raise
                if not await self._ask_user(scope, tool.name, given):
                    return _refuse(f"{ErrorCode.FORBIDDEN}: the user did not approve the call")
                result = await tool.use({**scope, USER_APPROVED: True}, given, self._make_report())
        except ValidationError as error:
            return _refuse(f"invalid_arguments: {describe_problems(error)}")
        except InnerRequestError as error:
            return _refuse(f"{error.problem.code}: {error.problem.detail}")
        return mcp.ServerResult(await _convert_result(scope, result, self._get_revision()))

    async def list_resources(self, request: mcp.ListResourcesRequest) -> mcp.ServerResult:
        cursor = request.params.cursor if request.params is not None else None
        query = {"limit": str(_PAGE), "enabled": "true"} | ({"after": cursor} if cursor else {})
        try:
            page = (await send_inner_request(self._get_scope(), "GET", "/api/skills", query=query)).parse_json()
        except InnerRequestError as error:
            raise _make_error(mcp.INVALID_PARAMS, str(error)) from error
        skills, following = page["skills"], page["next"]
        resources = [
            mcp.Resource(
                uri=AnyUrl(f"skillbus://skills/{skill['name']}/SKILL.md"),
                name=str(skill["name"]),
                description=str(skill["description"]),
                mimeType="text/markdown",
            )
            for skill in (skills if isinstance(skills, list) else ())
            if isinstance(skill, dict)
        ]
        next_cursor = None if following is None else str(following)
        return mcp.ServerResult(mcp.ListResourcesResult(resources=resources, nextCursor=next_cursor))

    async def list_templates(self, _: mcp.ListResourceTemplatesRequest) -> mcp.ServerResult:
        skill = mcp.ResourceTemplate(
            uriTemplate="skillbus://skills/{name}/{+path}", name="skill file", description="A file of a skill."
        )
        run = mcp.ResourceTemplate(
            uriTemplate="skillbus://runs/{run_id}/{+name}", name="run file", description="A file that a run left."
        )
        return mcp.ServerResult(mcp.ListResourceTemplatesResult(resourceTemplates=[skill, run]))

    async def read_resource(self, request: mcp.ReadResourceRequest) -> mcp.ServerResult:
        uri = request.params.uri
        found = _URI.fullmatch(str(uri))
        if found is None:
            raise _make_error(mcp.INVALID_PARAMS, f"no resource {str(uri)[:200]!r}")
        place, name = found["place"], unquote(found["name"])
        path = f"/api/{place}/{found['owner']}/{_FOLDERS[place]}/{name}"
        try:
            reply = await send_inner_request(self._get_scope(), "GET", path, max_bytes=_RESOURCE_BYTES)
        except InnerRequestError as error:
            raise _make_error(mcp.INVALID_PARAMS, f"{error.problem.code}: {error.problem.detail}") from error
        except ReplyTooLargeError as error:
            message = (
                f"{ErrorCode.PAYLOAD_TOO_LARGE}: the file is larger than {_RESOURCE_BYTES >> 20} MiB: fetch it over "
                f"HTTP, GET {error.path}"
            )
            raise _make_error(mcp.INVALID_PARAMS, message) from error
        return mcp.ServerResult(mcp.ReadResourceResult(contents=[_make_contents(uri, name, reply.body)]))

    def _get_scope(self) -> Scope:
        request = self._server.request_context.request
        if request is None:
            raise TypeError("a request over HTTP has an HTTP request")
        return request.scope

    def _get_revision(self) -> str:
        """Return the protocol revision of the session, as the SDK has negotiated it."""
        client = self._server.request_context.session.client_params
        asked = client.protocolVersion if client is not None else mcp.LATEST_PROTOCOL_VERSION
        return str(asked) if asked in SUPPORTED_PROTOCOL_VERSIONS else mcp.LATEST_PROTOCOL_VERSION

    def _can_ask_user(self, given: Mapping[str, JsonValue]) -> bool:
        """Return True if the client can ask its user, and the user can be shown all arguments."""
        asking = mcp.ClientCapabilities(elicitation=mcp.ElicitationCapability())
        can_ask = self._server.request_context.session.check_client_capability(asking)
        return can_ask and len(json.dumps(given)) <= _ASKED_BYTES

    async def _ask_user(self, scope: Scope, name: str, given: Mapping[str, JsonValue]) -> bool:
        """Return True if the user of the client approves a call. A client that leaves, or is too slow, does not."""
        context = self._server.request_context
        message = f"This call needs your approval: {name} {json.dumps(given, ensure_ascii=False)}"
        no_fields: dict[str, object] = {"type": "object", "properties": {}}
        asking = asyncio.ensure_future(context.session.elicit(message, no_fields, str(context.request_id)))
        leaving = asyncio.ensure_future(scope[CLIENT_LEFT].wait())
        try:
            await asyncio.wait({asking, leaving}, timeout=_ASK_S, return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result().action == "accept"
        except McpError:  # the client cannot ask after all
            return False
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.wait({asking, leaving})

    def _make_report(self) -> ReportProgress | None:
        context = self._server.request_context
        token = context.meta.progressToken if context.meta is not None else None
        if token is None:
            return None

        async def report(number: int, message: str) -> None:
            await context.session.send_progress_notification(
                token, number, message=message, related_request_id=str(context.request_id)
            )

        return report


def _describe_tool(tool: McpTool) -> mcp.Tool:
    return mcp.Tool(
        name=tool.name,
        description=tool.description,
        inputSchema=tool.arguments.model_json_schema(),
        annotations=mcp.ToolAnnotations(readOnlyHint=tool.read_only),
    )


def _refuse(message: str) -> mcp.ServerResult:
    text = mcp.TextContent(type="text", text=message)
    return mcp.ServerResult(mcp.CallToolResult(content=[text], isError=True))


def _make_error(code: int, message: str) -> McpError:
    return McpError(mcp.ErrorData(code=code, message=message))


async def _convert_result(scope: Scope, result: McpToolResult, revision: str) -> mcp.CallToolResult:
    content = [_PART.validate_python(await _convert_part(scope, part, revision)) for part in result.content]
    return mcp.CallToolResult(content=content, structuredContent=result.structured, isError=result.is_error)


async def _convert_part(scope: Scope, part: JsonValue, revision: str) -> JsonValue:
    """Return a small image or sound itself instead of its link, and another link with the `uri` of a resource."""
    if not isinstance(part, dict) or part.get("type") != "resource_link":
        return part
    path = str(part.get("uri"))
    found = _PATH.fullmatch(path)
    if found is None:
        return part
    kind, size = str(part.get("mimeType")), part.get("size")
    label = kind.partition("/")[0]
    inline = {"image", "audio"} if revision >= _SOUND_SINCE else {"image"}
    if label in inline and isinstance(size, int) and size <= _INLINE_BYTES:
        body = (await send_inner_request(scope, "GET", unquote(path.partition("?")[0]))).body
        return {"type": label, "data": base64.b64encode(body).decode(), "mimeType": kind}
    name = quote(unquote(found["name"]))
    uri = f"skillbus://{found['place']}/{found['owner']}/{name}"
    return {**part, "uri": uri} if revision >= _LINK_SINCE else {"type": "text", "text": f"file {uri}"}


def _make_contents(uri: AnyUrl, name: str, body: bytes) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return mcp.BlobResourceContents(uri=uri, blob=base64.b64encode(body).decode())
    kind = "text/markdown" if name.endswith(".md") else "text/plain"
    return mcp.TextResourceContents(uri=uri, text=text, mimeType=kind)
