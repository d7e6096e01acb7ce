"""What the retriever answers."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import ToolSource, ToolType
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.retriever import SERVICE


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: say what is looked for")
    return value


Query = Annotated[str, StringConstraints(min_length=1, max_length=8_000), WITHOUT_NUL, AfterValidator(_not_blank)]
"""What the user wants, in any language; at most 8,000 characters."""


class SearchTools(Message):
    """What is looked for."""

    query: Query
    limit: int = Field(default=5, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Hits with a `score` below it are left out. If absent, nothing comes back when not even the best hit is likely to
    fit. 0 asks for the nearest, whether they fit or not."""
    tool_types: Annotated[tuple[ToolType, ...], Field(fail_fast=True)] = ()
    """Only these kinds; all when empty."""
    tags: Annotated[tuple[str, ...], Field(max_length=50, fail_fast=True)] = ()
    """Only tools that have one of these tags; all when empty."""
    sources: Annotated[tuple[ToolSource, ...], Field(max_length=50, fail_fast=True)] = ()
    """Only tools that one of these described; all when empty."""
    quotas: dict[ToolType, Annotated[int, Field(ge=0, le=100)]] = Field(default_factory=dict)
    """At most so many hits of a kind; as many as fit of the kinds that are not named."""
    split: bool | None = None
    """Whether a request for several things is searched for each of them; if absent, when that helps."""
    explain: bool = False
    """Whether to tell what each stage did and how long it took."""
    project: Project = DEFAULT_PROJECT


class MatchReason(Message):
    """Why a tool was found, by one of the two sides of the search."""

    side: Literal["dense", "lexical"]
    rank: int
    """1 is best; among the candidates of this side."""
    score: float
    """Cosine of the dense side, BM25 of the lexical side."""
    terms: tuple[str, ...] = ()
    """Terms of the query that the tool's text holds; lexical side only."""
    parts: tuple[str, ...] = ()
    """Which parts of the tool hold them: `name`, `description`, `tags`, `arguments`, `examples`, `provider`; lexical
    side only."""


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
    source: str | None = None
    """Who described it; absent where the index does not say."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """More about the tool; `type` repeats `tool_type` for older callers."""
    reasons: tuple[MatchReason, ...] = ()
    repeats: str | None = None
    """Id of a hit above that says much the same: the score is lowered for it."""


class SearchStage(Message):
    """One step of a search."""

    name: str
    """`embed`, `candidates`, `rank`, `fetch`."""
    took_ms: float
    candidates: int
    """Tools that came out of it."""


class ToolSearchExplanation(Message):
    """What a search did."""

    stages: tuple[SearchStage, ...]
    threshold: float
    """That was applied."""
    below_threshold: int
    """Tools that were found and left out for their score."""
    best_score: float | None
    """Of all candidates, left out or not."""
    terms: tuple[str, ...] = ()
    """What the lexical side looked for, translations of terms included."""


class ToolsFound(Message):
    """The tools that fit, best first."""

    results: tuple[ToolHit, ...]
    degraded: Literal["lexical"] | None = None
    """Set when no dense vector could be had and the lexical side answered alone."""
    model: str | None = None
    """Name of the model that embedded the query."""
    split: tuple[str, ...] = ()
    """The parts of the request that were searched each by itself; empty when it was searched as a whole."""
    explanation: ToolSearchExplanation | None = None
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
