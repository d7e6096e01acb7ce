"""The tool `search_tools`."""

from typing import Annotated, Final, Literal, Protocol

from pydantic import Field, JsonValue

from skillbus.agent.domain.builtins.tool import About, Answer, Arguments, Builtin
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.tool_search import SearchTools, ToolHit, ToolsFound

MAX_HITS: Final = 20
_TOLD: Final = 300
"""Characters of a description in the text of an answer."""
_KEPT: Final = 2_000
"""And in its structure."""


class ToolFinder(Protocol):
    """Searches the catalogue."""

    async def find(self, request: SearchTools) -> ToolsFound:
        """Raises RequestError."""
        ...


class SearchForTools(Arguments):
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


ABOUT: Final = About(
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


def search_tool(finder: ToolFinder) -> Builtin[SearchForTools]:
    """The tool over this search."""

    async def run(project: str, asked: SearchForTools) -> Answer:
        if not asked.query.strip() or "\0" in asked.query:
            raise ArgumentsInvalidError("say what the tool should do", "$.query")
        kinds = tuple(map(ToolType, asked.tool_types))
        found = await finder.find(SearchTools(query=asked.query, limit=asked.limit, tool_types=kinds, project=project))
        return _told(found)

    return Builtin(ABOUT, SearchForTools, run)


def _told(found: ToolsFound) -> Answer:
    lines = [_line(place, hit) for place, hit in enumerate(found.results, 1)]
    structured: dict[str, JsonValue] = {
        "results": [_summary(hit) for hit in found.results],
        "degraded": found.degraded,
    }
    return Answer("\n".join(lines) or "No tool fits. Say it otherwise, or do without one.", structured)


def _line(place: int, hit: ToolHit) -> str:
    return f"{place}. {hit.id} ({hit.tool_type}, score {hit.score:.2f}): {hit.name}. {hit.description[:_TOLD]}"


def _summary(hit: ToolHit) -> JsonValue:
    """The kind at top level and in the metadata (tool-type.md § 3.4)."""
    return {
        "id": hit.id,
        "name": hit.name,
        "description": hit.description[:_KEPT],
        "score": round(hit.score, 4),
        "tool_type": hit.tool_type.value,
        "tags": list(hit.tags),
        "metadata": {**hit.metadata, "type": hit.tool_type.value},
    }
