"""The knowledge base as the learner keeps it: items with versions, their lifecycle, and what others read of them.

The record is SQL; the index of vectors follows it. An item is found only while the record says that it is active.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint, health_of
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.scope import Scope

SERVICE: Final = "learner"

TITLE_CHARACTERS: Final = 500
CONTENT_CHARACTERS: Final = 32_000
"""What the embedder takes as one text, title included: all of an item can be found."""
MAX_TAGS: Final = 50
MAX_IDS: Final = 256
"""Items that are named in one request."""
MAX_ITEMS: Final = 200
"""Of one `put_knowledge`."""


class KnowledgeType(StrEnum):
    """What kind of knowledge it is. Source: knowledge-base.md § 知识条目管理."""

    PROJECT_CONFIG = "project_config"
    BUSINESS_RULE = "business_rule"
    MODULE_CONTEXT = "module_context"
    TEST_EXPERIENCE = "test_experience"


class KnowledgeStatus(StrEnum):
    """Whether it is found."""

    ACTIVE = "active"
    PENDING = "pending"
    """Waits for a person to review it."""
    ARCHIVED = "archived"
    """Deleted or rejected: kept, and never found."""


class ChangeKind(StrEnum):
    """What made a version."""

    CREATED = "created"
    UPDATED = "updated"
    ARCHIVED = "archived"
    RESTORED = "restored"
    """Out of the archive."""
    REVERTED = "reverted"
    """An earlier version became the newest."""
    APPROVED = "approved"
    REJECTED = "rejected"


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: say something")
    return value


def _in_utc(value: datetime) -> datetime:
    """Of a time without a zone: UTC."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("lies before year 1 or after year 9999 in UTC: send a time between them") from error


NotBlank = AfterValidator(_not_blank)
Instant = Annotated[datetime, AfterValidator(_in_utc), Field(description="A moment; UTC where it names no zone.")]
Title = Annotated[str, StringConstraints(max_length=TITLE_CHARACTERS, strip_whitespace=True), WITHOUT_NUL, NotBlank]
Content = Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS), WITHOUT_NUL, NotBlank]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL]
Tags = Annotated[tuple[Tag, ...], Field(max_length=MAX_TAGS, fail_fast=True)]
Actor = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), WITHOUT_NUL]
Why = Annotated[str, StringConstraints(max_length=2_000), WITHOUT_NUL]
Source = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
"""Where it came from: `manual`, `import`, `log_learning`, `test_learning`, or a name that others chose."""
KnowledgeId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
"""Given by skillbus: a UUID of version 7."""
ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=300), WITHOUT_NUL]
Priority = Annotated[int, Field(ge=0, le=10)]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Of an item, as a request names it; 32 bits, as databases keep it."""
DEFAULT_PRIORITY: Final = 5
ANYBODY: Final = "anonymous"
MANUAL: Final = "manual"
IMPORTED: Final = "import"


class KnowledgeDraft(Message):
    """What people, imports and learning say of an item."""

    type: KnowledgeType
    title: Title
    content: Content
    """Markdown. Kept as it is; whoever shows it sanitises it."""
    scope: Scope = ""
    tags: Tags = ()
    """In their order, each once."""
    priority: Priority = DEFAULT_PRIORITY
    """10 is the highest."""
    source: Source = MANUAL
    source_ref: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] = ""
    """What of the source: the id of a task, a file."""
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] = ""
    lang: Annotated[str, StringConstraints(max_length=35), WITHOUT_NUL] = ""
    """BCP 47, where somebody said it."""
    valid_from: Instant | None = None
    """Not found before; `valid_to` not from then on."""
    valid_to: Instant | None = None
    external_id: ExternalId | None = None
    """As others name it; unique in a project. An import that names it again writes a new version."""


class KnowledgeItem(KnowledgeDraft):
    """An item as the record has it."""

    content: Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS)]
    """Markdown. Whole, or its beginning where a request says how much of it is wanted."""
    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    version: int = Field(ge=1)
    digest: str
    """SHA-256 of all that search sees of it, hex: the same digest, the same point of the index."""
    created_at: Instant
    created_by: Actor = ANYBODY
    updated_at: Instant
    updated_by: Actor = ANYBODY


class KnowledgeRef(Message):
    """An item at a version."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    version: int = Field(ge=1)


class CreateKnowledge(KnowledgeDraft):
    """A new item."""

    project: Project = DEFAULT_PROJECT
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """`active`, or `pending` for one that has to be reviewed."""
    actor: Actor = ANYBODY
    reason: Why = ""
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200), WITHOUT_NUL] | None = None
    """The same key with the same item again, within a day, is answered with what was made the first time."""


class KnowledgeWritten(Message):
    """What was written."""

    item: KnowledgeItem
    indexed: bool
    """Whether the index has it by now. If not, search takes it from the record until the index does."""
    repeated: bool = False
    """Whether it was written before, by the same idempotency key; or nothing of it changed."""


class NameKnowledge(Message):
    """One item, as it is or as it was."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    version: Version | None = None
    as_of: Instant | None = None
    """As the record had it then. Not together with `version`."""


class KnowledgeChanges(Message):
    """Changes of an item; what is absent stays as it is."""

    reason: Why = ""
    type: KnowledgeType | None = None
    title: Title | None = None
    content: Content | None = None
    scope: Scope | None = None
    tags: Tags | None = None
    priority: Priority | None = None
    source: Source | None = None
    source_ref: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] | None = None
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    lang: Annotated[str, StringConstraints(max_length=35), WITHOUT_NUL] | None = None
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    external_id: ExternalId | None = None


class UpdateKnowledge(KnowledgeChanges):
    """Changes of an item; what is absent stays as it is."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    expected_version: Version | None = None
    """Refused with `precondition_failed` when the item is at another one. Others may have changed it."""
    actor: Actor = ANYBODY
    clear: tuple[str, ...] = Field(default=(), max_length=3)
    """Fields to empty: of `valid_from`, `valid_to`, `external_id`."""


class ChangeStatus(Message):
    """An item is archived."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    expected_version: Version | None = None
    actor: Actor = ANYBODY
    reason: Why = ""


class RestoreKnowledge(ChangeStatus):
    """An item comes out of the archive; or, with `version`, is again as it was then, as a new version."""

    version: Version | None = None


class ListKnowledge(Message):
    """A page of items, newest change first."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=50, ge=1, le=200)
    after: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`next` of the page before."""
    types: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()
    statuses: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    tags: Tags = ()
    """Items that have one of them."""
    all_tags: Tags = ()
    """Items that have each of them."""
    scope: Scope | None = None
    """Items of exactly this scope."""
    source: Source | None = None
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """Items with all of these words in title or content, whatever the case."""


class KnowledgeSummary(Message):
    """An item in a list."""

    id: KnowledgeId
    project: Project
    external_id: str | None = None
    type: KnowledgeType
    title: str
    excerpt: str
    """The first 300 characters of the content."""
    scope: str
    tags: tuple[str, ...]
    priority: int
    source: str
    status: KnowledgeStatus
    version: int
    created_at: Instant
    updated_at: Instant
    updated_by: str


class KnowledgeListed(Message):
    """A page of items."""

    items: tuple[KnowledgeSummary, ...]
    total: int
    """Of all pages."""
    next: str | None = None


class ListVersions(Message):
    """Versions of an item, newest first."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    limit: int = Field(default=50, ge=1, le=200)
    before: Version | None = Field(default=None, ge=2)
    """Only versions below it: `next` of the page before."""


class KnowledgeVersion(Message):
    """An item as it was from one change to the next."""

    version: int
    change: ChangeKind
    at: Instant
    by: str
    reason: str = ""
    item: KnowledgeItem
    """Whole."""


class VersionsListed(Message):
    """Versions of an item; `next` is the `before` of the next page."""

    id: KnowledgeId
    versions: tuple[KnowledgeVersion, ...]
    total: int
    next: int | None = None


class DiffKnowledge(Message):
    """Two versions of an item."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    from_version: Version
    to_version: Version


class Span(Message):
    """A run of text that is in both versions, or in one of them."""

    kind: Annotated[str, StringConstraints(pattern="^(same|removed|added)$")]
    text: str


class FieldDiff(Message):
    """How a field differs."""

    field: str
    before: JsonValue
    after: JsonValue
    spans: tuple[Span, ...] = ()
    """Of title and content: word by word, characters of Chinese."""


class KnowledgeDiffed(Message):
    """What differs between two versions."""

    id: KnowledgeId
    from_version: int
    to_version: int
    changes: tuple[FieldDiff, ...]


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
    reason: Why = ""


class Reviewed(Message):
    """What became of one of them."""

    id: str
    ok: bool
    status: KnowledgeStatus | None = None
    version: int | None = None
    code: ErrorCode | None = None
    error: str | None = None


class KnowledgeReviewed(Message):
    """What became of each, in the order of the request."""

    results: tuple[Reviewed, ...]
    succeeded: int
    failed: int


class PutKnowledge(Message):
    """Items to write, new ones or, by their `external_id` or `id`, known ones again. Each is taken or refused alone."""

    project: Project = DEFAULT_PROJECT
    items: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    """Each a `KnowledgeDraft`. `id` is the `external_id` of a line that has none, unless it is an item's own id."""
    source: Source | None = None
    """Of items that name none; `import` if absent."""
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """Of new items."""
    dry_run: bool = False
    """Tell what would become of them, and write nothing."""
    actor: Actor = ANYBODY
    reason: Why = ""


class PutOutcome(StrEnum):
    """What became of an item."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


class ItemPut(Message):
    """What became of one of them."""

    id: str | None = None
    external_id: str | None = None
    outcome: PutOutcome
    version: int | None = None
    error: str | None = None
    """Why it was rejected."""


class KnowledgePut(Message):
    """What became of each, in the order of the request."""

    results: tuple[ItemPut, ...]
    indexed: bool
    """Whether the index has all of them by now."""


class ExportKnowledge(Message):
    """A page of whole items, in the order of their ids."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=100, ge=1, le=200)
    after: KnowledgeId | None = None
    statuses: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    types: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()


class KnowledgeExported(Message):
    """Whole items, as many as fit a message; `next` is the `after` of the next page."""

    items: tuple[KnowledgeItem, ...]
    next: str | None = None


class AuditEntry(Message):
    """Somebody did something."""

    sequence: int
    at: Instant
    actor: str
    action: str
    """A `ChangeKind`, `imported`, `exported`, `parent_set`."""
    project: Project
    id: str | None = None
    version: int | None = None
    digest: str | None = None
    """Of what it became."""
    reason: str = ""


class ListAudit(Message):
    """A page of the audit, oldest first. It only grows."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId | None = None
    after: int = Field(default=0, ge=0, le=2**63 - 1)
    limit: int = Field(default=100, ge=1, le=1000)


class AuditListed(Message):
    """A page of the audit; `next` is the `after` of the next one."""

    entries: tuple[AuditEntry, ...]
    next: int | None = None


class SetParent(Message):
    """Where a project looks beside its own items: in those of its parent, and of that one's."""

    project: Project
    parent: Project | None = None
    """None: nowhere else."""
    actor: Actor = ANYBODY


class NameProject(Message):
    """One project."""

    project: Project = DEFAULT_PROJECT


class KnowledgeProject(Message):
    """A project and those above it."""

    project: Project
    parents: tuple[Project, ...] = ()
    """Nearest first; at most eight."""


_FOUND = (ErrorCode.NOT_FOUND,)
_WRITTEN = (*_FOUND, ErrorCode.CONFLICT, ErrorCode.PRECONDITION_FAILED)
_EXAMPLE_ID: Final = "01890000-0000-7000-8000-000000000000"

CREATE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="create_knowledge",
    request=CreateKnowledge,
    reply=KnowledgeWritten,
    summary="Write a new item; it is found from the reply on.",
    raises=(ErrorCode.CONFLICT,),
    idempotent=False,
    timeout_s=30.0,
    example={
        "type": "business_rule",
        "title": "直播电商接口需要 game-id",
        "content": "所有 /api/live 下的接口都必须带 header `game-id`,缺少时返回 400。",
        "scope": "/api/live/*",
        "tags": ["auth", "game-id"],
    },
)
GET_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge",
    request=NameKnowledge,
    reply=KnowledgeItem,
    summary="One item, as it is, at a version, or as it was at a time.",
    raises=_FOUND,
    example={"id": _EXAMPLE_ID},
)
LIST_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge",
    request=ListKnowledge,
    reply=KnowledgeListed,
    summary="A page of items, by type, status, tags, scope, source, owner and words.",
    example={"types": ["business_rule"], "tags": ["auth", "game-id"]},
)
UPDATE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="update_knowledge",
    request=UpdateKnowledge,
    reply=KnowledgeWritten,
    summary="Change an item: a new version, and the one before in the history.",
    raises=_WRITTEN,
    idempotent=False,
    timeout_s=30.0,
    example={"id": _EXAMPLE_ID, "content": "缺少 game-id 时返回 403。", "reason": "changed with release 12"},
)
ARCHIVE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="archive_knowledge",
    request=ChangeStatus,
    reply=KnowledgeWritten,
    summary="Put an item into the archive: it is kept with its history, and never found.",
    raises=_WRITTEN,
    timeout_s=30.0,
    example={"id": _EXAMPLE_ID, "reason": "the endpoint is gone"},
)
RESTORE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="restore_knowledge",
    request=RestoreKnowledge,
    reply=KnowledgeWritten,
    summary="Take an item out of the archive, or make an earlier version its newest.",
    raises=_WRITTEN,
    idempotent=False,
    timeout_s=30.0,
    example={"id": _EXAMPLE_ID, "version": 1},
)
GET_KNOWLEDGE_HISTORY: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_history",
    request=ListVersions,
    reply=VersionsListed,
    summary="Every version of an item, whole, with who made it, when, how and why.",
    raises=_FOUND,
    example={"id": _EXAMPLE_ID},
)
DIFF_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="diff_knowledge",
    request=DiffKnowledge,
    reply=KnowledgeDiffed,
    summary="What differs between two versions of an item, field by field and word by word.",
    raises=_FOUND,
    example={"id": _EXAMPLE_ID, "from_version": 1, "to_version": 2},
)
REVIEW_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="review_knowledge",
    request=ReviewKnowledge,
    reply=KnowledgeReviewed,
    summary="Approve or reject pending items; each has its own result.",
    timeout_s=60.0,
    idempotent=False,
    example={"ids": [_EXAMPLE_ID], "action": "approve"},
)
PUT_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="put_knowledge",
    request=PutKnowledge,
    reply=KnowledgePut,
    summary="Write items, up to 200 at a time; what did not change is left as it is.",
    timeout_s=60.0,
    example={
        "items": [{"id": "faq-1", "type": "module_context", "title": "APISIX", "content": "An API gateway."}],
    },
)
EXPORT_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="export_knowledge",
    request=ExportKnowledge,
    reply=KnowledgeExported,
    summary="Whole items, a page at a time.",
    example={"limit": 10},
)
LIST_KNOWLEDGE_AUDIT: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge_audit",
    request=ListAudit,
    reply=AuditListed,
    summary="Who did what, and when.",
    example={"limit": 10},
)
SET_KNOWLEDGE_PARENT: Final = Endpoint(
    service=SERVICE,
    name="set_knowledge_parent",
    request=SetParent,
    reply=KnowledgeProject,
    summary="Let a project inherit the items of another, or of none.",
    raises=(ErrorCode.CONFLICT,),
    example={"project": "team-a", "parent": "default"},
)
GET_KNOWLEDGE_PROJECT: Final = Endpoint(
    service=SERVICE,
    name="get_knowledge_project",
    request=NameProject,
    reply=KnowledgeProject,
    summary="The projects whose items a project inherits.",
    example={"project": "default"},
)
HEALTH: Final = health_of(SERVICE)
