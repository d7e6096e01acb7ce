"""The versions of an item of knowledge, what differs between them, and the review of what was learnt."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.items import KnowledgeChanges
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
from skillbus.contracts.message import Message, ProjectMessage


class ListKnowledgeVersions(ProjectMessage):
    """Query for one page of an item's versions, newest first."""

    id: KnowledgeId
    limit: int = Field(default=50, ge=1, le=200)
    before: VersionNumber | None = Field(default=None, ge=2)
    """List only older versions than this one: `next` of the previous page."""


class KnowledgeVersion(Message):
    """Version of an item in full, and the change that made it."""

    version: int
    change: KnowledgeChangeKind
    at: Instant
    by: str
    reason: str = ""
    item: KnowledgeItem


class KnowledgeVersionsListed(Message):
    """One page of an item's versions."""

    id: KnowledgeId
    versions: tuple[KnowledgeVersion, ...]
    total: int
    next: int | None = None
    """Value of `before` for the next page. Absent on the last page."""


class DiffKnowledge(ProjectMessage):
    """Two versions of an item to compare."""

    id: KnowledgeId
    from_version: VersionNumber
    to_version: VersionNumber


class TextSpan(Message):
    """Part of a text that is in both versions or in one of them."""

    kind: Annotated[str, StringConstraints(pattern="^(same|removed|added)$")]
    text: str


class KnowledgeFieldDiff(Message):
    """Changed field, with its values in the first and in the second version."""

    field: str
    before: JsonValue
    after: JsonValue
    spans: tuple[TextSpan, ...] = ()
    """Differences inside title and content, by word, or by character for Chinese."""


class KnowledgeDiffed(Message):
    """Differences between two versions of an item."""

    id: KnowledgeId
    from_version: int
    to_version: int
    changes: tuple[KnowledgeFieldDiff, ...]


class ReviewAction(StrEnum):
    """Decision about a pending item."""

    APPROVE = "approve"
    REJECT = "reject"
    """Archive it. What was learned and rejected is not proposed again."""
    MERGE = "merge"
    """Archive it, and let its evidence support the item `other`."""
    SUPERSEDE = "supersede"
    """Approve it, and archive the item `other` that it replaces."""
    SNOOZE = "snooze"
    """Leave it pending, and list it among proposals again at `until`. Only for learned items."""


class ReviewKnowledge(ProjectMessage):
    """Pending items, and one decision about all of them."""

    ids: Annotated[tuple[KnowledgeId, ...], Field(min_length=1, max_length=MAX_IDS)]
    action: ReviewAction
    changes: KnowledgeChanges | None = None
    """Changes that an editor makes with the decision: of the item with `approve` and `supersede`, of the item `other`
    with `merge`. Only for a single item."""
    other: KnowledgeId | None = None
    """Known item of `merge` and `supersede`. Absent means the one that the proposal names."""
    until: Instant | None = None
    """End of `snooze`."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class ItemReviewed(Message):
    """Result for one item: its status and version after the review, or the error."""

    id: str
    ok: bool
    """True if the decision was applied."""
    status: KnowledgeStatus | None = None
    version: int | None = None
    code: ErrorCode | None = None
    error: str | None = None


class KnowledgeReviewed(Message):
    """Result for each item, in the order of the request."""

    results: tuple[ItemReviewed, ...]
    succeeded: int
    failed: int
    indexed: bool = False
    """True if the index has all items that were reviewed."""


_NOT_FOUND = (ErrorCode.NOT_FOUND,)

GET_KNOWLEDGE_HISTORY: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_history",
    request=ListKnowledgeVersions,
    reply=KnowledgeVersionsListed,
    summary="List the versions of an item in full, with actor, time, kind and reason of each change.",
    is_read=True,
    raises=_NOT_FOUND,
    example={"id": EXAMPLE_ID},
)
DIFF_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="diff_knowledge",
    request=DiffKnowledge,
    reply=KnowledgeDiffed,
    summary="Compare two versions of an item field by field, and texts word by word.",
    is_read=True,
    raises=_NOT_FOUND,
    example={"id": EXAMPLE_ID, "from_version": 1, "to_version": 2},
)
REVIEW_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="review_knowledge",
    request=ReviewKnowledge,
    reply=KnowledgeReviewed,
    summary="Approve, reject, merge, supersede or snooze pending items. Each has its own result.",
    timeout_s=60.0,
    idempotent=False,
    stores_data=True,
    example={"ids": [EXAMPLE_ID], "action": "approve"},
    act=AuditedAct("ids", made="results.id", details=("action",)),
)
