"""Search for tools."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tool_functions import ToolFunction
from skillbus.contracts.indexer.tools import ToolSource, ToolType
from skillbus.contracts.message import DEFAULT_PROJECT, NOT_BLANK, WITHOUT_NUL, Message, Project
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever.search_explanation import DroppedHits, MatchReason, ScoreParts, SearchStage, Side

Query = Annotated[
    str,
    StringConstraints(min_length=1, max_length=8_000),
    WITHOUT_NUL,
    NOT_BLANK,
    Field(description="Need, question or topic in plain words, in any language."),
]


class SearchTools(Message):
    """Search for tools."""

    query: Query
    limit: int = Field(default=5, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Lowest `score` of a hit. Absent means a threshold that returns nothing if even the best hit is unlikely to fit.
    0 returns the nearest tools in any case."""
    tool_types: Annotated[tuple[ToolType, ...], Field(fail_fast=True)] = ()
    tags: Annotated[tuple[str, ...], Field(max_length=50, fail_fast=True)] = ()
    """Find only tools with at least one of these tags. Empty means all."""
    sources: Annotated[tuple[ToolSource, ...], Field(max_length=50, fail_fast=True)] = ()
    quotas: dict[ToolType, Annotated[int, Field(ge=0, le=100)]] = Field(default_factory=dict)
    """Most hits of each named type. Other types have no quota."""
    split: bool | None = None
    """True searches each part of a query that asks for several things; false searches the query as a whole. Absent
    means that the retriever decides."""
    side: Side | None = None
    """Compare only vectors (`dense`) or only words (`lexical`), to see what each side finds. Absent means both."""
    explain: bool = False
    """True explains the search: the parts of each score, the stages, and what was left out."""
    functions: bool = False
    """True returns the functions of each hit that can be called, with their parameters."""
    project: Project = DEFAULT_PROJECT


class ToolHit(Message):
    """Tool that fits the query."""

    id: str
    name: str
    description: str
    score: float
    """Calibrated relevance from 0 to 1. Hits are ordered by it, highest first."""
    cosine: float | None
    """Cosine of query and tool. Absent if only words were compared."""
    tool_type: ToolType
    callable: bool = True
    """True if `call_tool` can call it. False for external tools, and for skills that are instructions only."""
    source: str | None = None
    """Origin of the description. Absent if the index does not hold it."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Additional data of the tool. `type` repeats `tool_type` for older callers."""
    reasons: tuple[MatchReason, ...] = ()
    parts: ScoreParts | None = None
    """Parts of the score. Only with `explain`."""
    repeats: str | None = None
    """Id of a better hit with nearly the same meaning. The score is lowered for it."""
    functions: tuple[ToolFunction, ...] | None = None
    """Functions that a model can call: the tool, or each action of a skill. Absent if the request did not ask for them,
    for a tool that cannot be called, and if the index does not hold them or the reply has no room: `describe_tools`
    returns them then. Over HTTP none is left out."""


class ToolSearchExplanation(Message):
    """Explanation of a search."""

    stages: tuple[SearchStage, ...]
    """Stages `embed`, `filter`, `candidates`, `rank` and `fetch`. `filter` counts the tools that pass the filters."""
    indexed: int = 0
    """Tools of the project in the index. Disabled and quarantined tools are not in it."""
    threshold: float
    below_threshold: int
    best_score: float | None
    """Best score of all candidates, also those below the threshold."""
    terms: tuple[str, ...] = ()
    """Terms that the lexical side searched for, including translations."""
    dropped: tuple[DroppedHits, ...] = ()
    """Candidates that were not returned, by reason."""


class SearchReply(Message):
    """Reply to a query: the model that embedded it, and the time that it took."""

    degraded: Literal["lexical"] | None = None
    """Set if no dense vector was available and only words were compared."""
    model: str | None = None
    """Name of the model that embedded the query."""
    took_ms: float


class ToolsFound(SearchReply):
    """Tools that fit the query, best first."""

    results: tuple[ToolHit, ...]
    split: tuple[str, ...] = ()
    """Parts of the query that were searched separately. Empty if the query was searched as a whole."""
    explanation: ToolSearchExplanation | None = None


SEARCH_TOOLS: Final = Endpoint(
    service=SERVICE,
    name="search_tools",
    request=SearchTools,
    reply=ToolsFound,
    summary="Find the few tools that fit a query in any language.",
    is_read=True,
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    timeout_s=10.0,
    example={"query": "帮我提交代码", "limit": 3},
)
