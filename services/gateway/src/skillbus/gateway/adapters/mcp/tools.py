"""Tools that the gateway offers as an MCP server: their arguments, and the route that does the work of each."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue
from starlette.datastructures import Headers
from starlette.types import Scope

from skillbus.common.tools.spoken_commands import HomeUnclearError, choose_home, summarize_resolution
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.devices import HomesListed
from skillbus.contracts.retriever.command_resolution import CommandResolved
from skillbus.contracts.retriever.query_ir import MAX_SENTENCE
from skillbus.gateway.adapters.mcp.inner_request import USER_APPROVED, InnerRequestError, send_inner_request
from skillbus.gateway.adapters.mcp.run_progress import ReportProgress, RunProgress
from skillbus.gateway.domain.model_tools import DESCRIPTION_CHARACTERS, DESTRUCTIVE
from skillbus.gateway.domain.runs.tool_calls import SKILL_PREFIX

INSTRUCTIONS: Final = (
    "Finds the few tools, skills and pieces of team knowledge that fit a task. Use search_tools with the task in plain "
    "words, in any language; then call_tool with the id (and action) of a result and arguments that fit its "
    "parameters. search_knowledge and build_context return what the team knows; suggest_knowledge proposes something "
    "new for review. resolve_command turns a spoken command for a home into its devices and their commands."
)
SESSION_HEADER: Final = "mcp-session-id"
_NO_PARAMETERS: Final[dict[str, JsonValue]] = {"type": "object", "properties": {}}
_ANY_OBJECT = dict[str, JsonValue]


class ToolArguments(BaseModel):
    """Base of the arguments of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSearchArguments(ToolArguments):
    query: Annotated[
        str, Field(min_length=1, max_length=8_000, description="What the tool should do, in any language.")
    ]
    limit: Annotated[int, Field(ge=1, le=20, description="How many tools to return at most.")] = 5


class CallOptions(ToolArguments):
    arguments: Annotated[
        _ANY_OBJECT,
        Field(
            description="Arguments by name, as the tool's parameters say.",
            validation_alias=AliasChoices("arguments", "args"),  # the latter is the option of the command line
        ),
    ] = {}
    action: Annotated[str | None, Field(description="Action of a skill; by default its default action.")] = None
    files: Annotated[dict[str, str], Field(description="Input files of a skill by name, in base64.")] = {}
    timeout_s: Annotated[float | None, Field(gt=0, le=3600, description="Seconds that it may take.")] = None


class CallToolArguments(CallOptions):
    id: Annotated[str, Field(description="Id of the tool, as search_tools returns it.")]


class RunSkillArguments(CallOptions):
    name: Annotated[str, Field(description="Name of the skill.")]


class KnowledgeArguments(ToolArguments):
    query: Annotated[str, Field(min_length=1, max_length=8_000, description="Question or topic, in any language.")]
    scope: Annotated[str | None, Field(description="Place that it must apply to, such as /api/live/*.")] = None


class KnowledgeSearchArguments(KnowledgeArguments):
    top_k: Annotated[int, Field(ge=1, le=20, description="How many items to return at most.")] = 5


class BuildContextArguments(KnowledgeArguments):
    budget_tokens: Annotated[int, Field(ge=1, le=100_000, description="Most tokens of the context.")] = 4_000


class SuggestKnowledgeArguments(ToolArguments):
    title: Annotated[str, Field(min_length=1, max_length=200)]
    content: Annotated[str, Field(min_length=1, max_length=32_000, description="What others should know.")]
    type: Annotated[str, Field(description="Kind of the item, such as note or business_rule.")] = "note"
    scope: Annotated[str | None, Field(description="Place that it applies to, such as /api/live/*.")] = None
    tags: Annotated[list[str], Field(max_length=20)] = []
    reason: Annotated[str, Field(max_length=500, description="Why it is worth keeping.")] = ""


class SpokenCommandArguments(ToolArguments):
    text: Annotated[str, Field(min_length=1, max_length=MAX_SENTENCE, description="What the speaker said, unchanged.")]
    home: Annotated[str | None, Field(max_length=100, description="Name of the home; not needed if there is one.")] = (
        None
    )
    room: Annotated[
        str | None,
        Field(max_length=100, description="Room in which the speaker is, if known: what 'in here' means."),
    ] = None
    session: Annotated[
        str | None,
        Field(max_length=200, description="Dialogue of one speaker, for words like 'it'; by default this MCP session."),
    ] = None


@dataclass(frozen=True, slots=True)
class McpToolResult:
    """Result of a tool in MCP's terms."""

    content: tuple[JsonValue, ...]
    structured: dict[str, JsonValue] | None = None
    is_error: bool = False


Use = Callable[[Scope, Mapping[str, JsonValue], ReportProgress | None], Awaitable[McpToolResult]]


@dataclass(frozen=True, slots=True)
class McpTool:
    """Tool with its use. `use` gets the ASGI scope of the request, and arguments that fit `arguments`."""

    name: str
    description: str
    arguments: type[ToolArguments]
    use: Use
    read_only: bool = False
    is_long: bool = False
    """True if a call may take minutes."""


async def _search_tools(scope: Scope, given: Mapping[str, JsonValue], _: ReportProgress | None) -> McpToolResult:
    reply = await send_inner_request(scope, "POST", "/api/tools/search", body={**given, "functions": True})
    results = list[JsonValue]()
    for hit in map(_object, _list(reply.parse_json()["results"])):
        about = {name: hit[name] for name in ("id", "tool_type", "callable")} | {
            "score": round(_number(hit["score"]), 3)
        }
        functions = _list(hit["functions"])
        if not functions:
            results.append({**about, "description": hit["description"]})
        for function in map(_object, functions):  # one for each action of a skill
            action = {} if function["action"] is None else {"action": function["action"]}
            parameters = {**_NO_PARAMETERS, **_object(function["parameters"])}
            description = str(function["description"])[:DESCRIPTION_CHARACTERS]
            hints: dict[str, JsonValue] = {"annotations": DESTRUCTIVE} if function["requires_approval"] else {}
            results.append({**about, **action, "description": description, "parameters": parameters, **hints})
    return _make_result({"tools": results})


async def _call_tool(scope: Scope, given: Mapping[str, JsonValue], report: ReportProgress | None) -> McpToolResult:
    body = {name: value for name, value in given.items() if name != "id"}
    return await _call(scope, str(given["id"]), body, report)


async def _run_skill(scope: Scope, given: Mapping[str, JsonValue], report: ReportProgress | None) -> McpToolResult:
    body = {name: value for name, value in given.items() if name != "name"}
    return await _call(scope, f"{SKILL_PREFIX}{str(given['name']).removeprefix(SKILL_PREFIX)}", body, report)


async def _call(
    scope: Scope, tool_id: str, body: Mapping[str, JsonValue], report: ReportProgress | None
) -> McpToolResult:
    path, body = f"/api/tools/{tool_id}/call", {**body, "by_agent": USER_APPROVED not in scope}
    if report is None:
        called = (await send_inner_request(scope, "POST", path, body=body)).parse_json()
    else:
        async with RunProgress(report) as progress:
            await send_inner_request(
                scope, "POST", path, query={"stream": "true"}, body=body, on_chunk=progress.feed_chunk
            )
        called = progress.get_reply()
    structured = called["structured"]
    return McpToolResult(
        content=tuple(_list(called["content"])),
        structured=structured if isinstance(structured, dict) else None,
        is_error=bool(called["is_error"]),
    )


async def _search_knowledge(scope: Scope, given: Mapping[str, JsonValue], _: ReportProgress | None) -> McpToolResult:
    found = (await send_inner_request(scope, "POST", "/api/knowledge/search", body=given)).parse_json()
    items = list[JsonValue]()
    for hit in map(_object, _list(found["results"])):
        item = _object(hit["item"])
        shown = {name: item[name] for name in ("id", "type", "title", "content", "scope", "tags")}
        items.append({**shown, "score": round(_number(hit["score"]), 3)})
    return _make_result({"items": items})


async def _build_context(scope: Scope, given: Mapping[str, JsonValue], _: ReportProgress | None) -> McpToolResult:
    built = (await send_inner_request(scope, "POST", "/api/knowledge/context", body=given)).parse_json()
    shown = {name: built[name] for name in ("tokens", "budget_tokens")}
    return McpToolResult(({"type": "text", "text": built["text"]},), {**shown, "text": built["text"]})


async def _suggest_knowledge(scope: Scope, given: Mapping[str, JsonValue], _: ReportProgress | None) -> McpToolResult:
    reply = await send_inner_request(scope, "POST", "/api/knowledge/suggest", body=given)
    item = _object(reply.parse_json()["item"])
    return _make_result({"id": item["id"], "status": item["status"]})


async def _resolve_command(scope: Scope, given: Mapping[str, JsonValue], _: ReportProgress | None) -> McpToolResult:
    named = given.get("home")
    asked = {"session": Headers(scope=scope).get(SESSION_HEADER), **given}
    try:
        home = str(named) if named is not None else await _choose_home(scope, None)
        try:
            reply = await send_inner_request(scope, "POST", "/api/context/resolve", body={**asked, "home": home})
        except InnerRequestError as error:
            if error.problem.code != ErrorCode.NOT_FOUND:
                raise
            await _choose_home(scope, home)
            raise
    except HomeUnclearError as error:
        return McpToolResult(({"type": "text", "text": f"{ErrorCode.NOT_FOUND}: {error}"},), is_error=True)
    return _make_result(summarize_resolution(CommandResolved.model_validate_json(reply.body)))


async def _choose_home(scope: Scope, named: str | None) -> str:
    reply = await send_inner_request(scope, "GET", "/api/homes")
    return choose_home(HomesListed.model_validate_json(reply.body), named)


MCP_TOOLS: Final = (
    McpTool(
        "search_tools",
        "Find the tools and skills that fit a task. Returns ids with the parameters to call them with.",
        ToolSearchArguments,
        _search_tools,
        read_only=True,
    ),
    McpTool(
        "call_tool",
        "Call a tool or skill by the id that search_tools returned.",
        CallToolArguments,
        _call_tool,
        is_long=True,
    ),
    McpTool(
        "run_skill", "Run a skill by its name in an isolated sandbox.", RunSkillArguments, _run_skill, is_long=True
    ),
    McpTool(
        "search_knowledge",
        "Find what the team knows about a question: rules, notes, experience.",
        KnowledgeSearchArguments,
        _search_knowledge,
        read_only=True,
    ),
    McpTool(
        "build_context",
        "Return what the team knows about a question as one text within a token budget.",
        BuildContextArguments,
        _build_context,
        read_only=True,
    ),
    McpTool(
        "suggest_knowledge",
        "Propose a knowledge item. It stays pending until a person has reviewed it.",
        SuggestKnowledgeArguments,
        _suggest_knowledge,
    ),
    McpTool(
        "resolve_command",
        "Resolve a spoken command, such as 打开除卧室以外的灯, to devices of a home, the command of each and its "
        "arguments. Carries nothing out. If a result has a `question`, ask it.",
        SpokenCommandArguments,
        _resolve_command,
        read_only=True,
    ),
)

LONG_TOOLS: Final = frozenset(tool.name for tool in MCP_TOOLS if tool.is_long)


def _make_result(structured: dict[str, JsonValue]) -> McpToolResult:
    text = json.dumps(structured, ensure_ascii=False)
    return McpToolResult(({"type": "text", "text": text},), structured)


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
