"""The versions of an item of knowledge, what differs between them, and the review of what was learnt."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    EXAMPLE_ID,
    MAX_IDS,
    Actor,
    Instant,
    KnowledgeChangeKind,
    KnowledgeId,
    KnowledgeItem,
    KnowledgeStatus,
    ReasonText,
    VersionNumber,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project


class ListKnowledgeVersions(Message):
    """Versions of an item, newest first."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    limit: int = Field(default=50, ge=1, le=200)
    before: VersionNumber | None = Field(default=None, ge=2)
    """Only versions below it: `next` of the page before."""


class KnowledgeVersion(Message):
    """An item as it was from one change to the next."""

    version: int
    change: KnowledgeChangeKind
    at: Instant
    by: str
    reason: str = ""
    item: KnowledgeItem
    """Whole."""


class KnowledgeVersionsListed(Message):
    """Versions of an item; `next` is the `before` of the next page."""

    id: KnowledgeId
    versions: tuple[KnowledgeVersion, ...]
    total: int
    next: int | None = None


class DiffKnowledge(Message):
    """Two versions of an item."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    from_version: VersionNumber
    to_version: VersionNumber


class TextSpan(Message):
    """A run of text that is in both versions, or in one of them."""

    kind: Annotated[str, StringConstraints(pattern="^(same|removed|added)$")]
    text: str


class KnowledgeFieldDiff(Message):
    """How a field differs."""

    field: str
    before: JsonValue
    after: JsonValue
    spans: tuple[TextSpan, ...] = ()
    """Of title and content: word by word, characters of Chinese."""


class KnowledgeDiffed(Message):
    """What differs between two versions."""

    id: KnowledgeId
    from_version: int
    to_version: int
    changes: tuple[KnowledgeFieldDiff, ...]


class ReviewAction(StrEnum):
    """What a person decides about a pending item."""

    APPROVE = "approve"
    REJECT = "reject"


class ReviewKnowledge(Message):
    """Pending items to approve or to reject; each by itself."""

    project: Project = DEFAULT_PROJECT
    ids: Annotated[tuple[KnowledgeId, ...], Field(min_length=1, max_length=MAX_IDS)]
    action: ReviewAction
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class ItemReviewed(Message):
    """What became of one of them."""

    id: str
    ok: bool
    status: KnowledgeStatus | None = None
    version: int | None = None
    code: ErrorCode | None = None
    error: str | None = None


class KnowledgeReviewed(Message):
    """What became of each, in the order of the request."""

    results: tuple[ItemReviewed, ...]
    succeeded: int
    failed: int


_FOUND = (ErrorCode.NOT_FOUND,)


GET_KNOWLEDGE_HISTORY: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_history",
    request=ListKnowledgeVersions,
    reply=KnowledgeVersionsListed,
    summary="Every version of an item, whole, with who made it, when, how and why.",
    raises=_FOUND,
    example={"id": EXAMPLE_ID},
)


DIFF_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="diff_knowledge",
    request=DiffKnowledge,
    reply=KnowledgeDiffed,
    summary="What differs between two versions of an item, field by field and word by word.",
    raises=_FOUND,
    example={"id": EXAMPLE_ID, "from_version": 1, "to_version": 2},
)


REVIEW_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="review_knowledge",
    request=ReviewKnowledge,
    reply=KnowledgeReviewed,
    summary="Approve or reject pending items; each has its own result.",
    timeout_s=60.0,
    idempotent=False,
    example={"ids": [EXAMPLE_ID], "action": "approve"},
)
