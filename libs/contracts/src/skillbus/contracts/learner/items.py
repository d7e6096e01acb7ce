"""The life of an item of knowledge: written, read, listed, changed, archived and restored."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    EXAMPLE_ID,
    Actor,
    ExternalId,
    Instant,
    KnowledgeContent,
    KnowledgeDraft,
    KnowledgeId,
    KnowledgeItem,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeTitle,
    KnowledgeType,
    KnowledgeTypes,
    Priority,
    ReasonText,
    Tags,
    VersionNumber,
)
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project, ProjectMessage
from skillbus.contracts.scope import Scope

IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200), WITHOUT_NUL]


class CreateKnowledge(KnowledgeDraft):
    """New item."""

    project: Project = DEFAULT_PROJECT
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """`active`, or `pending` for an item that must be reviewed."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""
    idempotency_key: IdempotencyKey | None = None
    """Key that makes a repetition safe: the same key with the same item within one day returns the first result."""


class KnowledgeWritten(Message):
    """Written item."""

    item: KnowledgeItem
    indexed: bool
    """True if the index holds this version. Otherwise search finds it once the index does."""
    repeated: bool = False
    """True if nothing was written: the idempotency key was used before, or nothing changed."""


class GetKnowledge(ProjectMessage):
    """Wanted item, optionally at an earlier version."""

    id: KnowledgeId
    version: VersionNumber | None = None
    """Wanted version. Absent means the current one."""
    as_of: Instant | None = None
    """Return the version of this time. Cannot be combined with `version`."""


class KnowledgeChanges(Message):
    """Changes of an item. Absent fields stay as they are; the others mean the same as in `CreateKnowledge`."""

    reason: ReasonText = ""
    type: KnowledgeType | None = None
    title: KnowledgeTitle | None = None
    content: KnowledgeContent | None = None
    scope: Scope | None = None
    tags: Tags | None = None
    priority: Priority | None = None
    source: KnowledgeSource | None = None
    source_ref: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] | None = None
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    lang: Annotated[str, StringConstraints(max_length=35), WITHOUT_NUL] | None = None
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    external_id: ExternalId | None = None


class UpdateKnowledge(KnowledgeChanges):
    """Change of an item. Absent fields stay as they are; the others mean the same as in `CreateKnowledge`."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    expected_version: VersionNumber | None = None
    """Version that the caller read. If the item has another one, the request fails with `precondition_failed`."""
    actor: Actor = ANYBODY
    clear: tuple[str, ...] = Field(default=(), max_length=3)
    """Fields to clear: `valid_from`, `valid_to` or `external_id`."""


class ArchiveKnowledge(ProjectMessage):
    """Archiving of an item."""

    id: KnowledgeId
    expected_version: VersionNumber | None = None
    """Version that the caller read. If the item has another one, the request fails with `precondition_failed`."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class RestoreKnowledge(ArchiveKnowledge):
    """Restoring of an item from the archive or, with `version`, from an earlier version."""

    version: VersionNumber | None = None
    """Version to restore. Its content becomes a new version."""


class ListKnowledge(ProjectMessage):
    """Query for one page of items, latest change first."""

    limit: int = Field(default=50, ge=1, le=200)
    after: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`next` of another page: list the items behind it."""
    before: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`previous` of another page: list the items in front of it. Cannot be combined with `after`."""
    types: KnowledgeTypes = ()
    statuses: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    tags: Tags = ()
    all_tags: Tags = ()
    scope: Scope | None = None
    """List only items with exactly this scope."""
    source: KnowledgeSource | None = None
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """List only items with all of these words in title or content, ignoring case."""


class KnowledgeSummary(Message):
    """Item in a list."""

    id: KnowledgeId
    project: Project
    external_id: str | None = None
    type: KnowledgeType
    title: str
    excerpt: str
    """First 300 characters of the content."""
    scope: str
    tags: tuple[str, ...]
    priority: int
    source: str
    source_ref: str = ""
    """Reference inside the source, such as the task of a learning job or the name of a file."""
    status: KnowledgeStatus
    version: int
    created_at: Instant
    updated_at: Instant
    updated_by: str


class KnowledgeListed(Message):
    """One page of items."""

    items: tuple[KnowledgeSummary, ...]
    total: int
    next: str | None = None
    """Value of `after` for the next page. Absent on the last page."""
    previous: str | None = None
    """Value of `before` for the previous page. Absent on the first page."""


_FOUND = (ErrorCode.NOT_FOUND,)
_WRITTEN = (*_FOUND, ErrorCode.CONFLICT, ErrorCode.PRECONDITION_FAILED)

CREATE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="create_knowledge",
    request=CreateKnowledge,
    reply=KnowledgeWritten,
    summary="Create an item. The reply waits up to two seconds for the index; `indexed` is true if searches find it.",
    raises=(ErrorCode.CONFLICT,),
    idempotent=False,
    stores_data=True,
    timeout_s=30.0,
    example={
        "type": "business_rule",
        "title": "直播电商接口需要 game-id",
        "content": "所有 /api/live 下的接口都必须带 header `game-id`,缺少时返回 400。",
        "scope": "/api/live/*",
        "tags": ["auth", "game-id"],
    },
    act=AuditedAct(made="item.id", details=("status",)),
)
GET_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge",
    request=GetKnowledge,
    reply=KnowledgeItem,
    summary="Return one item: its current version, a given version, or the version of a given time.",
    is_read=True,
    raises=_FOUND,
    example={"id": EXAMPLE_ID},
)
LIST_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge",
    request=ListKnowledge,
    reply=KnowledgeListed,
    summary="List one page of items, filtered by type, status, tags, scope, source, owner and words.",
    is_read=True,
    example={"types": ["business_rule"], "tags": ["auth", "game-id"]},
)
UPDATE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="update_knowledge",
    request=UpdateKnowledge,
    reply=KnowledgeWritten,
    summary="Change an item. The change makes a new version; the previous one stays in the history.",
    raises=_WRITTEN,
    idempotent=False,
    stores_data=True,
    timeout_s=30.0,
    example={"id": EXAMPLE_ID, "content": "缺少 game-id 时返回 403。", "reason": "changed with release 12"},
    act=AuditedAct("id", made="item.id", names_fields=True),
)
ARCHIVE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="archive_knowledge",
    request=ArchiveKnowledge,
    reply=KnowledgeWritten,
    summary="Archive an item: it is kept with its history, but searches no longer find it.",
    raises=_WRITTEN,
    timeout_s=30.0,
    example={"id": EXAMPLE_ID, "reason": "the endpoint is gone"},
    act=AuditedAct("id", made="item.id"),
)
RESTORE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="restore_knowledge",
    request=RestoreKnowledge,
    reply=KnowledgeWritten,
    summary="Restore an item from the archive, or restore an earlier version of it.",
    raises=_WRITTEN,
    idempotent=False,
    stores_data=True,
    timeout_s=30.0,
    example={"id": EXAMPLE_ID, "version": 1},
    act=AuditedAct("id", made="item.id"),
)
