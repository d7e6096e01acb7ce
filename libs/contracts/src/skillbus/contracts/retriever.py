"""What the retriever answers."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint, health_of
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Message, PlainText, Project

SERVICE: Final = "retriever"


class ToolType(StrEnum):
    """What kind of tool a hit is, which tells how it is called."""

    MCP = "mcp"
    BUILTIN = "builtin"
    SKILL = "skill"


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: say what is looked for")
    return value


Query = Annotated[PlainText, StringConstraints(min_length=1, max_length=8_000), AfterValidator(_not_blank)]
"""What the user wants, in any language; at most 8,000 characters."""


class SearchTools(Message):
    """What is looked for."""

    query: Query
    limit: int = Field(default=5, ge=1, le=100)
    threshold: float = Field(default=0.0, ge=0.0, le=1.0)
    """Hits with a `score` below it are left out."""
    tool_types: Annotated[tuple[ToolType, ...], Field(fail_fast=True)] = ()
    """Only these kinds; all when empty."""
    tags: Annotated[tuple[str, ...], Field(max_length=50, fail_fast=True)] = ()
    """Only tools that have one of these tags; all when empty."""
    project: Project = DEFAULT_PROJECT


class Reason(Message):
    """Why a tool was found, by one of the two sides of the search."""

    side: Literal["dense", "lexical"]
    rank: int
    """1 is best; among the candidates of this side."""
    score: float
    """Cosine of the dense side, BM25 of the lexical side."""
    terms: tuple[str, ...] = ()
    """Terms of the query that the tool's text holds; lexical side only."""


class ToolHit(Message):
    """A tool that fits."""

    id: str
    name: str
    description: str
    score: float
    """Calibrated relevance, 0 to 1; hits come in its descending order."""
    cosine: float | None
    """Cosine of query and tool; absent when the answer is lexical only."""
    tool_type: ToolType
    tags: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """More about the tool; `type` repeats `tool_type` for older callers."""
    reasons: tuple[Reason, ...] = ()


class ToolsFound(Message):
    """The tools that fit, best first."""

    results: tuple[ToolHit, ...]
    degraded: Literal["lexical"] | None = None
    """Set when no dense vector could be had and the lexical side answered alone."""
    model: str | None = None
    """Name of the model that embedded the query."""
    took_ms: float


SEARCH_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="search_tools",
    request=SearchTools,
    reply=ToolsFound,
    summary="Find the few tools that fit a request, in any language.",
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    timeout_s=10.0,
    example={"query": "帮我提交代码", "limit": 3},
)
HEALTH: Final = health_of(SERVICE)
