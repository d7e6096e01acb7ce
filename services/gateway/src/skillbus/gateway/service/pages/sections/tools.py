"""Pages of the catalogue of tools: list, and one tool with a form to try it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import JsonValue, StringConstraints

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tool_functions import DESCRIBE_TOOLS, DescribeTools, ToolFunction
from skillbus.contracts.indexer.tools import (
    GET_TOOL,
    LIST_TOOLS,
    GetTool,
    ListTools,
    ToolSource,
    ToolState,
    ToolType,
)
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, ProjectMessage
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.rendering import render_page
from skillbus.gateway.service.tools import ToolInPath

TOOLS_PAGE: Final = "/tools"
_PAGE_SIZE: Final = 100
_KINDS: Final = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean"}
"""Types of JSON Schema with a field of their own; the others are written as JSON."""


class ToolPageQuery(ProjectMessage):
    """Query for one page of the catalogue."""

    tool_type: ToolType | None = None
    state: ToolState | None = None
    source: ToolSource | None = None
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    after: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] | None = None


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """Field of the form that tries a function."""

    name: str
    kind: str
    """`string`, `integer`, `number`, `boolean`, `choice` or `json`."""
    description: str
    is_required: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolPages:
    """Handlers of the pages of tools."""

    caller: BusCaller

    async def show_list(self, request: Request, page: Annotated[ToolPageQuery, Query()]) -> Response:
        """Show one page of the catalogue. The filters are in the address."""
        wanted = ListTools(
            project=page.project,
            limit=_PAGE_SIZE,
            after=page.after,
            tool_types=() if page.tool_type is None else (page.tool_type,),
            states=() if page.state is None else (page.state,),
            source=page.source,
            text=page.text or None,
        )
        context = {
            "listed": await self.caller.call(LIST_TOOLS, wanted),
            "query": page,
            "types": tuple(ToolType),
            "states": tuple(ToolState),
        }
        return render_page(request, "tools/list.html", context, project=page.project)

    async def show_tool(
        self, request: Request, tool_id: ToolInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a tool, what waits for an operator, and a form for each of its functions."""
        tool = await self.caller.call(GET_TOOL, GetTool(project=project, id=tool_id))
        described = await self.caller.call(DESCRIBE_TOOLS, DescribeTools(project=project, ids=(tool_id,)))
        role = get_caller(request.scope).role
        context = {
            "tool": tool,
            "functions": [(function, tuple(_list_fields(function))) for function in described.functions],
            "can_run": role.includes(Role.RUNNER),
            "can_administrate": role.includes(Role.ADMIN),
        }
        return render_page(request, "tools/tool.html", context, project=project)


def _list_fields(function: ToolFunction) -> Iterator[ArgumentField]:
    """Yield a field for each parameter that the schema names."""
    properties, required = function.parameters.get("properties"), function.parameters.get("required")
    if not isinstance(properties, dict):
        return
    for name, schema in properties.items():
        part: dict[str, JsonValue] = schema if isinstance(schema, dict) else {}
        choices = part.get("enum")
        texts = tuple(str(one) for one in choices) if isinstance(choices, list) else ()
        is_choice = bool(texts) and isinstance(choices, list) and all(isinstance(one, str) for one in choices)
        kind = "choice" if is_choice else _KINDS.get(str(part.get("type")), "json")
        is_required = isinstance(required, list) and name in required
        yield ArgumentField(name, kind, str(part.get("description") or ""), is_required, texts if is_choice else ())
