"""How knowledge is used and what people say of it, as the learner counts it.

That an item was shown raises nothing; that people found it helpful, or not, moves its place a little.
"""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    Actor,
    Instant,
    KnowledgeId,
    KnowledgeStatus,
    KnowledgeType,
    ReasonText,
)
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project

RETRIEVER: Final = "retriever"
SHOWN: Final = "search"
"""The scene of a search whose caller names none."""
MAX_ANSWERED: Final = 100
"""Requests that one event tells of."""

Scene = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
"""What it was used for: `search`, `test_generation`, `chat`, or a name of one's own."""
UsedFor = Annotated[str, StringConstraints(max_length=8_000), WITHOUT_NUL]


class KnowledgeUse(Message):
    """An item at its place in an answer."""

    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    """Whose item it is."""
    version: int = Field(ge=1)
    position: int = Field(ge=1)
    """1 is the first."""


class AnsweredRequest(Message):
    """A request was answered with these items, or with none."""

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Of the search or the context: told twice, it counts once."""
    scene: Scene = SHOWN
    query: UsedFor
    applied: bool = False
    """Whether the items went into a context, and were not merely shown."""
    at: Instant
    uses: Annotated[tuple[KnowledgeUse, ...], Field(max_length=100)] = ()


class KnowledgeUsed(Message):
    """Requests of a project were answered, in this order."""

    project: Project = DEFAULT_PROJECT
    """Whose requests they are."""
    requests: Annotated[tuple[AnsweredRequest, ...], Field(min_length=1, max_length=MAX_ANSWERED)]


class GiveFeedback(Message):
    """Whether an item helped with a query. One voice each: the last word of an actor about a query counts."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    helpful: bool
    query: UsedFor = ""
    request_id: Annotated[str, StringConstraints(max_length=64), WITHOUT_NUL] = ""
    """Of the search or the context, where it is known."""
    actor: Actor = ANYBODY
    comment: ReasonText = ""


class HelpfulRate(Message):
    """A share with its 95 % interval (Wilson)."""

    share: float
    low: float
    high: float
    count: int


class ItemUsage(Message):
    """How one item is used."""

    id: KnowledgeId
    title: str = ""
    shown: int = 0
    applied: int = 0
    """Times that it went into a context."""
    helpful: int = 0
    unhelpful: int = 0
    rate: HelpfulRate | None = None
    """Helpful of all that was said; absent where nothing was."""
    mean_position: float | None = None
    scenes: dict[str, int] = Field(default_factory=dict)
    last_used_at: Instant | None = None


class GetKnowledgeUsage(Message):
    """One item."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId


class GetKnowledgeStats(Message):
    """A project."""

    project: Project = DEFAULT_PROJECT
    stale_after_days: int = Field(default=90, ge=1, le=3_650)
    """Items neither changed nor helpful for so long are stale."""
    limit: int = Field(default=20, ge=0, le=100)
    """Of each report."""


class UnansweredQuery(Message):
    """A query that nothing was found for."""

    query: str
    count: int
    last_at: Instant


class KnowledgeStats(Message):
    """A project in numbers, and what somebody should look at."""

    project: Project
    total: int
    by_status: dict[KnowledgeStatus, int]
    by_type: dict[KnowledgeType, int]
    """Active items."""
    unindexed: int
    """Active items that the index does not have yet, at their version."""
    searches: int
    contexts: int
    feedback: HelpfulRate | None = None
    most_used: tuple[ItemUsage, ...] = ()
    never_used: tuple[ItemUsage, ...] = ()
    """Active, and neither shown nor applied so far; oldest first."""
    never_used_count: int = 0
    stale: tuple[ItemUsage, ...] = ()
    stale_count: int = 0
    least_helpful: tuple[ItemUsage, ...] = ()
    """By the upper end of the interval of their rate."""
    unanswered: tuple[UnansweredQuery, ...] = ()


GIVE_FEEDBACK: Final = Endpoint(
    service=SERVICE,
    name="give_feedback",
    request=GiveFeedback,
    reply=ItemUsage,
    summary="Say whether an item helped; the last word of each person about each query counts.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": "01890000-0000-7000-8000-000000000000", "helpful": True, "query": "直播接口要哪些 header"},
)
GET_KNOWLEDGE_USAGE: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_usage",
    request=GetKnowledgeUsage,
    reply=ItemUsage,
    summary="How an item is used, and what people say of it.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": "01890000-0000-7000-8000-000000000000"},
)
GET_KNOWLEDGE_STATS: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_stats",
    request=GetKnowledgeStats,
    reply=KnowledgeStats,
    summary="A knowledge base in numbers: what is used, never used, stale, and what was asked in vain.",
    timeout_s=30.0,
    example={"project": "default"},
)
KNOWLEDGE_USED: Final = Event(
    RETRIEVER,
    "knowledge",
    "used",
    KnowledgeUsed,
    "Searches and contexts of a project were answered with these items, or with none.",
)
