"""Operations on tools of every type."""

import json
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from pydantic import BaseModel

from skillbus.client.call import SentParts
from skillbus.client.operation import ReplyParser, custom_operation, json_operation
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.agent.tool_calls import CallTool, ToolCalled
from skillbus.contracts.http import ToolsImported
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
from skillbus.contracts.retriever.tool_search import SearchTools, ToolsFound

IMPORT_S: Final = 600.0
"""Longest pause of an import: it may have to wait for a slow model, or for a service that restarts."""
CALL_S: Final = 330.0
"""Time to wait where an MCP server must answer first: its own timeout may be up to 300 s."""
CONTENT_NDJSON: Final = {"Content-Type": "application/x-ndjson"}
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


class ToolOperations:
    """Tools of every type: the catalogue, descriptions by others, search and calls."""

    search_tools = json_operation("POST", f"{_TOOLS}/search", SearchTools, ToolsFound, is_idempotent=True)
    """Find the few tools that fit a query in any language. If nothing fits, `results` is empty."""
    call_tool = json_operation("POST", f"{_TOOL}/call", CallTool, ToolCalled, in_query=_PROJECT, timeout_s=CALL_S)
    """Call an MCP tool or a builtin tool. A failure of the tool is a normal reply: see `is_error`."""
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
    remove_tool = json_operation("DELETE", _TOOL, GetTool, ToolsRemoved)
    """Remove one tool from the catalogue and the index. A tool of an MCP server needs the role `admin`."""
    remove_tools = json_operation(
        "DELETE", _TOOLS, RemoveTools, ToolsRemoved, renamed={"ids": "id"}, timeout_s=IMPORT_S, is_idempotent=True
    )
    """Remove tools from the catalogue and the index: every one of `ids`, or all of a `source`."""
