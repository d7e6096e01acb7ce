"""Searches for knowledge, and contexts for a model within a token budget."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.index import KnowledgeFilter
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeType
from skillbus.contracts.learner.usage import SHOWN, Scene
from skillbus.contracts.message import Message, Project
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever.search_explanation import DroppedHits, MatchReason, ScoreParts, SearchStage, Side
from skillbus.contracts.retriever.tool_search import Query, SearchReply
from skillbus.contracts.scope import ScopeMatch

MAX_BUDGET: Final = 1_000_000
"""Largest token budget of a context."""


class SearchKnowledge(KnowledgeFilter):
    """Search for knowledge."""

    query: Query
    top_k: int = Field(default=5, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Lowest `score` of a hit. Absent means a threshold that returns nothing if even the best hit is unlikely to fit;
    with a `scope`, every hit that is unlikely to fit is left out. 0 returns the nearest items in any case."""
    feedback: bool = True
    """True lets feedback of people move an item up or down a little."""
    content_characters: int = Field(default=4_000, ge=0, le=32_000)
    """Longest content of a hit, in characters. Longer contents are cut."""
    scene: Scene = SHOWN
    """Purpose of the search, for the statistics."""
    record_use: bool = True
    """False leaves the search out of the statistics."""
    side: Side | None = None
    """Compare only vectors (`dense`) or only words (`lexical`), to see what each side finds. Absent means both."""
    explain: bool = False
    """True explains the search: the parts of each score, the stages, and what was left out."""


class ScoreFactors(Message):
    """Adjustments of a hit's score apart from its relevance, as bounded log-odds.

    They are for the match of the scopes, a tag in the query, the priority and age of the item, and feedback.
    """

    scope: float = 0.0
    tag: float = 0.0
    priority: float = 0.0
    freshness: float = 0.0
    feedback: float = 0.0


class KnowledgeHit(Message):
    """Item that fits the query."""

    item: KnowledgeItem
    content_cut: bool = False
    score: float
    """Calibrated relevance from 0 to 1, with its adjustments. Hits are ordered by it, highest first; with a
    `scope`, by `scope_match` first."""
    cosine: float | None = None
    """Cosine of query and item. Absent if only words were compared."""
    scope_match: ScopeMatch | None = None
    """Relation of the item's scope to the requested scope. Absent if none was requested."""
    reasons: tuple[MatchReason, ...] = ()
    """Reasons why the item was found. Their parts are `title`, `content`, `tags` and `scope`."""
    factors: ScoreFactors | None = None
    """Adjustments of the score. Only with `explain`."""
    relevance: float | None = None
    """Score without adjustments. Only with `explain`."""
    parts: ScoreParts | None = None
    """Parts of the score apart from `factors`. Only with `explain`."""
    indexed: bool = True
    """False if the index holds an older version of the item. The hit was found and ranked by that version, and shows
    the current one."""


class KnowledgeSearchExplanation(Message):
    """Explanation of a search for knowledge."""

    stages: tuple[SearchStage, ...]
    """Stages `embed`, `filter`, `candidates`, `record` and `rank`. `filter` counts the points that pass the filter."""
    indexed: int = 0
    """Points in the index of knowledge, in all projects."""
    threshold: float
    below_threshold: int
    not_shown: int
    """Number of candidates that the record refused: archived, changed or moved since they were indexed."""
    best_score: float | None = None
    """Best score of all candidates, also those below the threshold."""
    terms: tuple[str, ...] = ()
    """Terms that the lexical side searched for."""
    projects: tuple[Project, ...] = ()
    other_scopes: int = 0
    """Items that pass all filters but the scope. 0 if no scope was requested."""
    dropped: tuple[DroppedHits, ...] = ()
    """Candidates that were not returned, by reason."""


class KnowledgeReply(SearchReply):
    """Reply made of the knowledge that fits a query."""

    request_id: str
    """Id of the request. Send it with feedback."""
    index_behind: int = 0
    """Number of items of the searched projects that the index lacks or holds at an older version. The search may have
    missed them."""


class KnowledgeFound(KnowledgeReply):
    """Items that fit the query, best first."""

    results: tuple[KnowledgeHit, ...]
    explanation: KnowledgeSearchExplanation | None = None


class BuildContext(KnowledgeFilter):
    """Context for a model, made of the knowledge that fits a query."""

    query: Query
    budget_tokens: int = Field(default=4_000, ge=1, le=MAX_BUDGET)
    tokenizer: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    """Name of the tokenizer that counts tokens: a file `<name>.json` in the retriever's tokenizer folder. Absent means
    an upper bound that holds for every tokenizer that falls back to bytes."""
    candidates: int = Field(default=50, ge=1, le=200)
    """Most items that are considered."""
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Lowest score of an item. Absent means the threshold of a search."""
    use: Literal["test_generation", "chat"] = "chat"
    """Built-in template of the text."""
    scene: Scene | None = None
    """Purpose of the context, for the statistics. Absent means the value of `use`."""
    record_use: bool = True
    """False leaves the context out of the statistics."""


class ContextItem(Message):
    """Item in a context."""

    id: str
    version: int
    project: Project
    external_id: str | None = None
    type: KnowledgeType
    title: str
    scope: str
    content: str
    """Content as far as it is part of the text."""
    cut: bool = False
    """True if the end of the content was cut."""
    score: float
    """Calibrated relevance from 0 to 1."""
    priority: int
    tokens: int


class OmittedItem(Message):
    """Item that was found but is not part of the context."""

    id: str
    title: str
    reason: Literal["over_budget", "alike"]
    score: float
    priority: int


class OmittedItems(Message):
    """Items that were found but are not part of the context."""

    over_budget: int = 0
    """Number of items that did not fit into the budget."""
    alike: int = 0
    """Number of items that repeat another item of the context."""
    ids: tuple[str, ...] = ()
    """First 100 ids."""
    first: tuple[OmittedItem, ...] = ()
    """The first 20 with their reasons, most important first."""


class ContextBuilt(KnowledgeReply):
    """Context. The same request over the same knowledge gives the same context."""

    text: str
    tokens: int
    budget_tokens: int
    counted_by: str
    """Name of the tokenizer, or `upper_bound`."""
    items: tuple[ContextItem, ...]
    """Items in the order of the text: by priority, then in the order of a search."""
    omitted: OmittedItems
    first_item_tokens: int | None = None
    """Budget that the most important item needs to be whole. Only if it is cut or left out. Of an item that is longer
    than eight characters for each token of the budget, and than 4,000 characters, at least this much."""


SEARCH_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="search_knowledge",
    request=SearchKnowledge,
    reply=KnowledgeFound,
    summary="Find the knowledge that fits a query and a scope, in any language.",
    is_read=True,
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    example={"query": "直播电商模块需要哪些header参数", "scope": "/api/live/*", "top_k": 5},
)
BUILD_CONTEXT: Final = Endpoint(
    service=SERVICE,
    name="build_context",
    request=BuildContext,
    reply=ContextBuilt,
    summary="Write the knowledge that fits a query as a context for a model, within a token budget.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND, ErrorCode.VECTOR_STORE_UNAVAILABLE),
    example={"query": "直播电商模块需要哪些header参数", "budget_tokens": 500},
)
