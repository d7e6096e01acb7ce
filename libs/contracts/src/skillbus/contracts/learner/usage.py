"""Usage of knowledge and feedback of people, counted by the learner.

Feedback moves an item up or down a little in searches. Being shown does not.
"""

from datetime import date
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
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project, ProjectMessage

RETRIEVER: Final = "retriever"
SHOWN: Final = "search"
"""Scene of a search without a scene."""
MAX_ANSWERED: Final = 100
"""Most requests in one event."""

Scene = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
"""Purpose of a search or context: `search`, `test_generation`, `chat`, or a caller's own name."""
UsedFor = Annotated[str, StringConstraints(max_length=8_000), WITHOUT_NUL]


class KnowledgeUse(Message):
    """Item in the reply to a search or context."""

    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    version: int = Field(ge=1)
    position: int = Field(ge=1)
    """Position in the reply. The first is 1."""


class AnsweredRequest(Message):
    """Search or context that was answered, with the items of its reply."""

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Id of the search or context. A repeated id is counted once."""
    scene: Scene = SHOWN
    query: UsedFor
    applied: bool = False
    """True if the items went into a context, false if they were hits of a search."""
    at: Instant
    uses: Annotated[tuple[KnowledgeUse, ...], Field(max_length=100)] = ()


class KnowledgeUsed(Message):
    """Answered requests of a project, in their order."""

    project: Project = DEFAULT_PROJECT
    requests: Annotated[tuple[AnsweredRequest, ...], Field(min_length=1, max_length=MAX_ANSWERED)]


class GiveFeedback(ProjectMessage):
    """Feedback on an item. For each actor and query only the latest feedback counts."""

    id: KnowledgeId
    helpful: bool
    query: UsedFor = ""
    """Query that the item was found for."""
    request_id: Annotated[str, StringConstraints(max_length=64), WITHOUT_NUL] = ""
    """Id of the search or context, if it is known."""
    actor: Actor = ANYBODY
    comment: ReasonText = ""
    """Comment of the actor."""


class HelpfulRate(Message):
    """Share of positive votes, from 0 to 1, with its 95 % confidence interval (Wilson). Absent without votes."""

    share: float
    low: float
    high: float
    count: int
    """Number of votes."""


class ItemUsage(Message):
    """Usage of one item, and the votes on it."""

    id: KnowledgeId
    title: str = ""
    shown: int = 0
    """Number of searches that returned it."""
    applied: int = 0
    """Number of contexts that contain it."""
    helpful: int = 0
    unhelpful: int = 0
    rate: HelpfulRate | None = None
    mean_position: float | None = None
    """Mean position in replies. The first position is 1."""
    scenes: dict[str, int] = Field(default_factory=dict)
    """Number of uses by scene."""
    last_used_at: Instant | None = None


class GetKnowledgeUsage(ProjectMessage):
    """Id of the wanted item."""

    id: KnowledgeId


class GetKnowledgeStats(ProjectMessage):
    """Query for the statistics of a project."""

    stale_after_days: int = Field(default=90, ge=1, le=3_650)
    """Days without a change or positive feedback after which an item is stale."""
    limit: int = Field(default=20, ge=0, le=100)
    """Most entries of each report."""
    days: int = Field(default=0, ge=0, le=366)
    """Days of the report `daily`, of which today is the last. 0 means none."""


class DailyUsage(Message):
    """Requests and votes of one day in UTC."""

    day: date
    searches: int = 0
    contexts: int = 0
    uses: int = 0
    """Number of items in the replies."""
    unanswered: int = 0
    """Number of searches and contexts without a result."""
    feedback: HelpfulRate | None = None
    """Votes of the day that still count. Absent without any."""


class UnansweredQuery(Message):
    """Query without a result."""

    query: str
    count: int
    last_at: Instant


class KnowledgeStats(Message):
    """Statistics of a project, and reports of what needs attention."""

    project: Project
    total: int
    by_status: dict[KnowledgeStatus, int]
    by_type: dict[KnowledgeType, int]
    """Number of active items by type."""
    unindexed: int
    """Number of active items that the index lacks or holds at an older version."""
    searches: int
    contexts: int
    feedback: HelpfulRate | None = None
    most_used: tuple[ItemUsage, ...] = ()
    never_used: tuple[ItemUsage, ...] = ()
    """Active items that were never shown or applied, oldest first."""
    never_used_count: int = 0
    stale: tuple[ItemUsage, ...] = ()
    """Active items without a recent change or positive feedback."""
    stale_count: int = 0
    least_helpful: tuple[ItemUsage, ...] = ()
    """Items with the lowest upper end of their rate's interval."""
    unanswered: tuple[UnansweredQuery, ...] = ()
    daily: tuple[DailyUsage, ...] = ()
    """Requests and votes by day, oldest first, also of days without any. Requests are kept for some months only."""


GIVE_FEEDBACK: Final = Endpoint(
    service=SERVICE,
    name="give_feedback",
    request=GiveFeedback,
    reply=ItemUsage,
    summary="Record whether an item helped. The latest feedback of each actor for each query counts.",
    raises=(ErrorCode.NOT_FOUND,),
    stores_data=True,
    example={"id": "01890000-0000-7000-8000-000000000000", "helpful": True, "query": "直播接口要哪些 header"},
)
GET_KNOWLEDGE_USAGE: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_usage",
    request=GetKnowledgeUsage,
    reply=ItemUsage,
    summary="Return how often an item was used, and its feedback.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"id": "01890000-0000-7000-8000-000000000000"},
)
GET_KNOWLEDGE_STATS: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_stats",
    request=GetKnowledgeStats,
    reply=KnowledgeStats,
    summary="Return statistics of a project: used, never used and stale items, and queries without a result.",
    is_read=True,
    timeout_s=30.0,
    example={"project": "default"},
)
KNOWLEDGE_USED: Final = Event(
    RETRIEVER,
    "knowledge",
    "used",
    KnowledgeUsed,
    "Searches and contexts of a project were answered.",
)
