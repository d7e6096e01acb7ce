"""Operations on tools of every type."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import httpx
from pydantic import BaseModel

from skillbus.client.call import SentParts
from skillbus.client.operation import ReplyParser, custom_operation, json_operation, stream_operation
from skillbus.client.operations.runs import SILENCE_S, EventParser, read_bytes
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.http import RunBegun, RunPrinted, ToolSearchBody, ToolSearchReply, ToolsImported
from skillbus.contracts.indexer.tool_approval import SetToolApproval
from skillbus.contracts.indexer.tools import (
    AcceptTool,
    CatalogueTool,
    GetTool,
    ListTools,
    RemoveTools,
    ToolDescription,
    ToolsListed,
    ToolsRemoved,
)

IMPORT_S: Final = 600.0
"""Longest pause of an import: it may have to wait for a slow model, or for a service that restarts."""
CALL_S: Final = 330.0
"""Time to wait where an MCP server must answer first: its own timeout may be up to 300 s."""
_MARGIN_S: Final = 30.0
CONTENT_NDJSON: Final = {"Content-Type": "application/x-ndjson"}
CallPart = RunBegun | RunPrinted | ToolCalled
"""Part of a followed call."""
_TOOLS: Final = "/api/tools"
_TOOL: Final = "/api/tools/{id}"
_PROJECT: Final = ("project",)


def format_ndjson(rows: Iterable[BaseModel | Mapping[str, object]]) -> SentParts:
    """Return the body that has one JSON object per line. Fields of models that were not given are left out."""
    values = (row.model_dump(mode="json", exclude_unset=True) if isinstance(row, BaseModel) else row for row in rows)
    return SentParts(
        content="".join(f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n" for value in values).encode()
    )


def _prepare_import(
    tools: Iterable[ToolDescription | Mapping[str, object]],
    *,
    source: str | None = None,
    review_changes: bool | None = None,
    only: Literal["problems"] | None = None,
    project: str | None = None,
) -> PreparedRequest:
    fields = {"source": source, "review_changes": review_changes, "only": only, "project": project}
    return PreparedRequest(fields, format_ndjson(tools), CONTENT_NDJSON)


def _prepare_call(
    id: str,  # noqa: A002 (the name of the field)
    arguments: Mapping[str, object] | None = None,
    *,
    action: str | None = None,
    files: Mapping[str, bytes] | None = None,
    timeout_s: float | None = None,
    run_id: str | None = None,
    by_agent: bool | None = None,
    project: str | None = None,
) -> PreparedRequest:
    fields: dict[str, object] = {"arguments": arguments, "action": action, "timeout_s": timeout_s, "run_id": run_id}
    fields["by_agent"] = by_agent
    if files:
        fields["files"] = {file: b64encode(content).decode() for file, content in files.items()}
    given = {key: value for key, value in fields.items() if value is not None}
    # The body is sent in any case: the route needs one.
    return PreparedRequest(
        {"id": id, "project": project},
        SentParts(json=json.loads(json.dumps(given, allow_nan=False))),
        timeout_s=max(CALL_S, (timeout_s or 0) + _MARGIN_S),
    )


def _prepare_file(run_id: str, name: str, *, project: str | None = None) -> PreparedRequest:
    return PreparedRequest({"run_id": run_id, "name": name, "project": project})


class CallEventParser(EventParser[ToolCalled]):
    """Parser of the events of a followed call."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(ToolCalled, response)

    def feed_line(self, line: str) -> CallPart | None:
        """Return the event that a line completes, or None. Raises ApiError if the call has no reply."""
        return super().feed_line(line)


class ToolOperations:
    """Tools of every type: the catalogue, descriptions by others, search and calls."""

    search_tools = json_operation("POST", f"{_TOOLS}/search", ToolSearchBody, ToolSearchReply, is_idempotent=True)
    """Find the few tools that fit a query in any language. If nothing fits, `results` is empty.

    With `format`, `tools` has the schemas of the callable results, to be passed to a model.
    """
    call_tool = custom_operation(
        HttpRoute("POST", f"{_TOOL}/call", in_query=_PROJECT), _prepare_call, ReplyParser(ToolCalled)
    )
    """Call a tool of any type. A failure of the tool is a normal reply: see `is_error`.

    With `by_agent` a tool that needs an approval is refused: set it where a model chose the call.
    """
    follow_tool = stream_operation(
        HttpRoute("POST", f"{_TOOL}/call", in_query=_PROJECT, fixed_query={"stream": "true"}, timeout_s=SILENCE_S),
        _prepare_call,
        CallEventParser,
    )
    """Call a tool; for a skill, yield `RunBegun` and each `RunPrinted`; last, yield the `ToolCalled`.

    Leaving the context before the end cancels the call.
    """
    get_call_file = custom_operation(HttpRoute("GET", "/api/calls/{run_id}/files/{name}"), _prepare_file, read_bytes)
    """Return the bytes of a file, an image or a sound that a tool of an MCP server returned, for one day."""
    put_tools = custom_operation(
        HttpRoute("PUT", _TOOLS, in_query=("source", "review_changes", "only", "project"), timeout_s=IMPORT_S),
        _prepare_import,
        ReplyParser(ToolsImported),
    )
    """Add or update tool descriptions. An invalid one is reported by its number, and the others are imported."""
    list_tools = json_operation("GET", _TOOLS, ListTools, ToolsListed)
    """List one page of the catalogue by id, including skills. `next` is the `after` of the next page."""
    get_tool = json_operation("GET", _TOOL, GetTool, CatalogueTool)
    """Return one tool with its findings and, if it is in quarantine, its pending description."""
    accept_tool = json_operation("POST", f"{_TOOL}/accept", AcceptTool, CatalogueTool, in_query=_PROJECT)
    """Accept the description of a quarantined tool. A description that has changed since is a conflict."""
    enable_tool = json_operation(
        "POST", f"{_TOOL}/enable", GetTool, CatalogueTool, in_query=_PROJECT, is_idempotent=True
    )
    """Enable a disabled tool: it is found and called again."""
    disable_tool = json_operation(
        "POST", f"{_TOOL}/disable", GetTool, CatalogueTool, in_query=_PROJECT, is_idempotent=True
    )
    """Disable a tool: it is neither found nor called, also after a new description."""
    set_tool_approval = json_operation(
        "POST", f"{_TOOL}/approval", SetToolApproval, CatalogueTool, in_query=_PROJECT, is_idempotent=True
    )
    """Decide whether an agent's calls of a tool or a skill wait for the approval of a person."""
    remove_tool = json_operation("DELETE", _TOOL, GetTool, ToolsRemoved)
    """Remove one tool from the catalogue and the index. A tool of an MCP server needs the role `admin`."""
    remove_tools = json_operation(
        "DELETE", _TOOLS, RemoveTools, ToolsRemoved, renamed={"ids": "id"}, timeout_s=IMPORT_S, is_idempotent=True
    )
    """Remove tools from the catalogue and the index: every one of `ids`, or all of a `source`."""
