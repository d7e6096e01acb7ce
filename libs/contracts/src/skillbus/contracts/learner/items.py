"""The life of an item of knowledge: written, read, listed, changed, archived and restored."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

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
    Priority,
    ReasonText,
    Tags,
    VersionNumber,
)
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.scope import Scope


class CreateKnowledge(KnowledgeDraft):
    """A new item."""

    project: Project = DEFAULT_PROJECT
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """`active`, or `pending` for one that has to be reviewed."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200), WITHOUT_NUL] | None = None
    """The same key with the same item again, within a day, is answered with what was made the first time."""


class KnowledgeWritten(Message):
    """What was written."""

    item: KnowledgeItem
    indexed: bool
    """Whether the index has it by now. If not, search takes it from the record until the index does."""
    repeated: bool = False
    """Whether it was written before, by the same idempotency key; or nothing of it changed."""


class GetKnowledge(Message):
    """One item, as it is or as it was."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    version: VersionNumber | None = None
    as_of: Instant | None = None
    """As the record had it then. Not together with `version`."""


class KnowledgeChanges(Message):
    """Changes of an item; what is absent stays as it is."""

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
    """Changes of an item; what is absent stays as it is."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    expected_version: VersionNumber | None = None
    """Refused with `precondition_failed` when the item is at another one. Others may have changed it."""
    actor: Actor = ANYBODY
    clear: tuple[str, ...] = Field(default=(), max_length=3)
    """Fields to empty: of `valid_from`, `valid_to`, `external_id`."""


class ArchiveKnowledge(Message):
    """An item is archived."""

    project: Project = DEFAULT_PROJECT
    id: KnowledgeId
    expected_version: VersionNumber | None = None
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class RestoreKnowledge(ArchiveKnowledge):
    """An item comes out of the archive; or, with `version`, is again as it was then, as a new version."""

    version: VersionNumber | None = None


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
    source: KnowledgeSource | None = None
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


_FOUND = (ErrorCode.NOT_FOUND,)


_WRITTEN = (*_FOUND, ErrorCode.CONFLICT, ErrorCode.PRECONDITION_FAILED)


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
    request=GetKnowledge,
    reply=KnowledgeItem,
    summary="One item, as it is, at a version, or as it was at a time.",
    raises=_FOUND,
    example={"id": EXAMPLE_ID},
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
    example={"id": EXAMPLE_ID, "content": "缺少 game-id 时返回 403。", "reason": "changed with release 12"},
)


ARCHIVE_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="archive_knowledge",
    request=ArchiveKnowledge,
    reply=KnowledgeWritten,
    summary="Put an item into the archive: it is kept with its history, and never found.",
    raises=_WRITTEN,
    timeout_s=30.0,
    example={"id": EXAMPLE_ID, "reason": "the endpoint is gone"},
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
    example={"id": EXAMPLE_ID, "version": 1},
)
