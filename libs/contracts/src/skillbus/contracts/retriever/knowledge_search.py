"""What the retriever answers about knowledge: searches, and contexts for a model that fit a budget."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.knowledge import Instant, KnowledgeItem, KnowledgeSource, KnowledgeType, Tags
from skillbus.contracts.learner.usage import SHOWN, Scene
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever.tool_search import MatchReason, Query, SearchStage
from skillbus.contracts.scope import Scope, ScopeMatch

MAX_BUDGET: Final = 1_000_000
TEMPLATE_CHARACTERS: Final = 20_000


class KnowledgeFilter(Message):
    """Which items count."""

    project: Project = DEFAULT_PROJECT
    inherit: bool = True
    """Whether items of the projects above count too."""
    types: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()
    tags: Tags = ()
    """Items that have one of them."""
    all_tags: Tags = ()
    """Items that have each of them."""
    sources: Annotated[tuple[KnowledgeSource, ...], Field(max_length=50)] = ()
    scope: Scope | None = None
    """Items of this scope first, those of everything last, and none of other scopes; all alike if absent."""
    at: Instant | None = None
    """Items that are valid then; now if absent."""


class SearchKnowledge(KnowledgeFilter):
    """What is looked for."""

    query: Query
    top_k: int = Field(default=5, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Hits with a `score` below it are left out. If absent, nothing comes back when not even the best hit is likely to
    fit. 0 asks for the nearest, whether they fit or not."""
    feedback: bool = True
    """Whether what people said of an item moves its place."""
    content_characters: int = Field(default=4_000, ge=0, le=32_000)
    """Of each hit; the rest is left away."""
    scene: Scene = SHOWN
    """What it is for, for the statistics."""
    record_use: bool = True
    explain: bool = False


class ScoreFactors(Message):
    """What moved a hit beside its likeness to the query: log-odds, each within its bounds."""

    scope: float = 0.0
    tag: float = 0.0
    """Of an item with a tag that the query names."""
    priority: float = 0.0
    freshness: float = 0.0
    feedback: float = 0.0


class KnowledgeHit(Message):
    """An item that fits."""

    item: KnowledgeItem
    """As the record has it now."""
    content_cut: bool = False
    """Whether the content is longer than was asked for."""
    score: float
    """Calibrated relevance, 0 to 1; hits come in its descending order."""
    cosine: float | None = None
    """Of query and item; absent when the answer is lexical only."""
    scope_match: ScopeMatch | None = None
    """How its scope lies to the one asked for; absent where none was."""
    reasons: tuple[MatchReason, ...] = ()
    """Why it was found, by each side; parts are `title`, `content`, `tags`, `scope`."""
    factors: ScoreFactors | None = None
    """With `explain`."""
    relevance: float | None = None
    """With `explain`: the score without the factors."""
    indexed: bool = True
    """False of what the index does not have yet, or at an older version: it was taken from the record."""


class KnowledgeSearchExplanation(Message):
    """What a search did."""

    stages: tuple[SearchStage, ...]
    """`embed`, `filter` (points of the index that pass it), `candidates`, `record`, `rank`."""
    indexed: int = 0
    """Points of the index, of all projects: what the filter began with."""
    threshold: float
    below_threshold: int
    """Items that were found and left out for their score."""
    not_shown: int
    """Candidates that the record does not let be shown: archived, changed or moved since they were indexed."""
    unindexed: int
    """Items that were taken from the record, for the index does not have them yet."""
    best_score: float | None = None
    terms: tuple[str, ...] = ()
    """What the lexical side looked for."""
    projects: tuple[Project, ...] = ()


class KnowledgeFound(Message):
    """The items that fit, best first."""

    results: tuple[KnowledgeHit, ...]
    request_id: str
    """To give with feedback."""
    degraded: Literal["lexical"] | None = None
    """Set when no dense vector could be had and the lexical side answered alone."""
    model: str | None = None
    explanation: KnowledgeSearchExplanation | None = None
    took_ms: float


class BuildContext(KnowledgeFilter):
    """A context for a model, out of what fits a query."""

    query: Query
    budget_tokens: int = Field(default=4_000, ge=1, le=MAX_BUDGET)
    """Never more than that, all told."""
    tokenizer: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    """Whose tokens: the name of a `<name>.json` among the retriever's tokenizers. Without one an upper bound is
    counted, which is that of no tokenizer and above that of all that fall back to bytes."""
    candidates: int = Field(default=50, ge=1, le=200)
    """Items that may come into it, at most."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    use: Literal["test_generation", "chat"] = "test_generation"
    """Whose template writes it."""
    template: Annotated[str, StringConstraints(max_length=TEMPLATE_CHARACTERS), WITHOUT_NUL] | None = None
    """A Jinja template in its place: it gets `query`, `scope`, `groups` (each `type`, `items`) and `omitted`, and runs
    in a sandbox, for a second at most."""
    scene: Scene | None = None
    """What it is for, for the statistics; `use` if absent."""
    record_use: bool = True


class ContextItem(Message):
    """An item in a context."""

    id: str
    version: int
    project: Project
    external_id: str | None = None
    type: KnowledgeType
    title: str
    scope: str
    content: str
    """As far as it is in the text."""
    cut: bool = False
    """Whether its end was left away."""
    score: float
    priority: int
    tokens: int


class OmittedItems(Message):
    """What was found and is not in the context."""

    over_budget: int = 0
    alike: int = 0
    """They say what another item of it says."""
    ids: tuple[str, ...] = ()
    """The first hundred."""


class ContextBuilt(Message):
    """A context: the same request of the same knowledge gives the same one."""

    text: str
    tokens: int
    """Of the text: at most `budget_tokens`."""
    budget_tokens: int
    counted_by: str
    """The tokenizer, or `upper_bound`."""
    items: tuple[ContextItem, ...]
    """In their order in the text."""
    omitted: OmittedItems
    request_id: str
    degraded: Literal["lexical"] | None = None
    model: str | None = None
    took_ms: float


SEARCH_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="search_knowledge",
    request=SearchKnowledge,
    reply=KnowledgeFound,
    summary="Find the knowledge that fits a query, in any language, for a scope.",
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    example={"query": "直播电商模块需要哪些header参数", "scope": "/api/live/*", "top_k": 5},
)
BUILD_CONTEXT: Final = Endpoint(
    service=SERVICE,
    name="build_context",
    request=BuildContext,
    reply=ContextBuilt,
    summary="Write what fits a query as a context for a model, within a budget of tokens.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    example={"query": "直播电商模块需要哪些header参数", "budget_tokens": 500},
)
