"""The tool `search_tools`."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.tool import BuiltinArguments, BuiltinProfile, BuiltinTool, make_tool
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolsFound

MAX_HITS: Final = 20
_TEXT_CHARACTERS: Final = 300
"""Characters of a description in the text of an answer."""
_STRUCTURED_CHARACTERS: Final = 2_000
"""Characters of a description in the structure of an answer."""


class SearchToolsArguments(BuiltinArguments):
    query: Annotated[
        str,
        Field(
            min_length=1, max_length=2_000, description="What the tool should do, in any language and your own words."
        ),
    ]
    limit: Annotated[int, Field(ge=1, le=MAX_HITS, description="How many tools to return at most.")] = 5
    tool_types: Annotated[
        list[Literal["mcp", "builtin", "skill", "external"]],
        Field(max_length=4, description="Only these kinds; all when empty."),
    ] = []  # noqa: RUF012 - a frozen model's default, which pydantic copies


ABOUT: Final = BuiltinProfile(
    name="search_tools",
    english="Find tools for a task by describing it: searches all skills, MCP tools and builtin tools and returns the "
    "few that fit.",
    chinese="工具检索：用自然语言描述任务，在所有技能、MCP 工具和内置工具中查找最合适的几个。",
    tags=("search", "discovery", "检索", "工具"),
    examples=(
        "Find a tool that can resize images.",
        "Is there any tool for sending e-mails?",
        "有没有可以处理 Excel 的工具",
        "帮我找一个能查天气的工具",
    ),
)


def make_search_tool(search: Callable[[SearchTools], Awaitable[ToolsFound]]) -> BuiltinTool:
    async def run(project: str, arguments: SearchToolsArguments) -> ToolAnswer:
        if not arguments.query.strip() or "\0" in arguments.query:
            raise ArgumentsInvalidError("say what the tool should do", "$.query")
        kinds = tuple(map(ToolType, arguments.tool_types))
        found = await search(
            SearchTools(query=arguments.query, limit=arguments.limit, tool_types=kinds, project=project)
        )
        return _answer_hits(found)

    return make_tool(ABOUT, SearchToolsArguments, run)


def _answer_hits(found: ToolsFound) -> ToolAnswer:
    lines = [
        f"{place}. {hit.id} ({hit.tool_type}, score {hit.score:.2f}): {hit.name}. {hit.description[:_TEXT_CHARACTERS]}"
        for place, hit in enumerate(found.results, 1)
    ]
    structured: dict[str, JsonValue] = {
        "results": [_summarize_hit(hit) for hit in found.results],
        "degraded": found.degraded,
    }
    text = "\n".join(lines) or "No tool fits. Describe the task in other words, or solve it without a tool."
    return ToolAnswer(text, structured=structured)


def _summarize_hit(hit: ToolHit) -> JsonValue:
    """Return a hit with its type at top level and in the metadata (tool-type.md § 3.4)."""
    return {
        "id": hit.id,
        "name": hit.name,
        "description": hit.description[:_STRUCTURED_CHARACTERS],
        "score": round(hit.score, 4),
        "tool_type": hit.tool_type.value,
        "tags": list(hit.tags),
        "metadata": {**hit.metadata, "type": hit.tool_type.value},
    }
