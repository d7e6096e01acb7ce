"""The knowledge base as the learner keeps it: items with versions, their lifecycle, and what others read of them.

The record is SQL; the index of vectors follows it. An item is found only while the record says that it is active.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.scope import Scope

TITLE_CHARACTERS: Final = 500


CONTENT_CHARACTERS: Final = 32_000
"""What the embedder takes as one text, title included: all of an item can be found."""


MAX_TAGS: Final = 50


MAX_IDS: Final = 256
"""Items that are named in one request."""


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


class KnowledgeChangeKind(StrEnum):
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


KnowledgeTitle = Annotated[
    str, StringConstraints(max_length=TITLE_CHARACTERS, strip_whitespace=True), WITHOUT_NUL, NotBlank
]


KnowledgeContent = Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS), WITHOUT_NUL, NotBlank]


Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL]


Tags = Annotated[tuple[Tag, ...], Field(max_length=MAX_TAGS, fail_fast=True)]


Actor = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), WITHOUT_NUL]


ReasonText = Annotated[str, StringConstraints(max_length=2_000), WITHOUT_NUL]


KnowledgeSource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
"""Where it came from: `manual`, `import`, `log_learning`, `test_learning`, or a name that others chose."""


KnowledgeId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
"""Given by skillbus: a UUID of version 7."""


ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=300), WITHOUT_NUL]


Priority = Annotated[int, Field(ge=0, le=10)]


VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Of an item, as a request names it; 32 bits, as databases keep it."""


DEFAULT_PRIORITY: Final = 5


ANYBODY: Final = "anonymous"


MANUAL: Final = "manual"


IMPORTED: Final = "import"


class KnowledgeDraft(Message):
    """What people, imports and learning say of an item."""

    type: KnowledgeType
    title: KnowledgeTitle
    content: KnowledgeContent
    """Markdown. Kept as it is; whoever shows it sanitises it."""
    scope: Scope = ""
    tags: Tags = ()
    """In their order, each once."""
    priority: Priority = DEFAULT_PRIORITY
    """10 is the highest."""
    source: KnowledgeSource = MANUAL
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


EXAMPLE_ID: Final = "01890000-0000-7000-8000-000000000000"
