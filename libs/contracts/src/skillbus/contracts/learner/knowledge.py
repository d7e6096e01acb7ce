"""Knowledge items: their fields, types and states.

The record of items is SQL. The index of vectors follows it. An item is found only while the record says that it is
active.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.message import DEFAULT_PROJECT, NOT_BLANK, WITHOUT_NUL, Message, Project, ProjectMessage
from skillbus.contracts.scope import Scope

TITLE_CHARACTERS: Final = 500
CONTENT_CHARACTERS: Final = 32_000
"""Longest content. Title and content together fit into one text of the embedder, so all of an item can be found."""
MAX_TAGS: Final = 50
MAX_IDS: Final = 256
"""Most items in one request."""
MAX_TYPES: Final = 16
"""Most types in one filter."""
NOTE: Final = "note"
TEST_EXPERIENCE: Final = "test_experience"
KNOWN_TYPES: Final = (NOTE, "faq", "project_config", "business_rule", "module_context", TEST_EXPERIENCE)
"""Types that skillbus names itself. The last four are those of knowledge-base.md § 知识条目管理."""


class KnowledgeStatus(StrEnum):
    """Status of an item."""

    ACTIVE = "active"
    """Found by searches."""
    PENDING = "pending"
    """Waits for review. Not found by searches."""
    ARCHIVED = "archived"
    """Deleted or rejected. Kept with its history, but not found by searches."""


class KnowledgeChangeKind(StrEnum):
    """Kind of change that made a version."""

    CREATED = "created"
    UPDATED = "updated"
    ARCHIVED = "archived"
    RESTORED = "restored"
    """Taken out of the archive."""
    REVERTED = "reverted"
    """Set to an earlier version."""
    APPROVED = "approved"
    REJECTED = "rejected"
    MERGED = "merged"
    """Archived in favour of an item that it was merged into."""
    SUPERSEDED = "superseded"
    """Archived because a newer item replaces it."""


def _in_utc(value: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is taken as UTC."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is before year 1 or after year 9999 in UTC: send a time between them") from error


Instant = Annotated[
    datetime, AfterValidator(_in_utc), Field(description="Time in RFC 3339. Without a zone it means UTC.")
]
KnowledgeType = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$"),
    Field(description=f"Type of knowledge: {', '.join(KNOWN_TYPES)}, or a name of your own.", examples=[NOTE]),
]
KnowledgeTypes = Annotated[tuple[KnowledgeType, ...], Field(max_length=MAX_TYPES)]
KnowledgeTitle = Annotated[
    str, StringConstraints(max_length=TITLE_CHARACTERS, strip_whitespace=True), WITHOUT_NUL, NOT_BLANK
]
KnowledgeContent = Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS), WITHOUT_NUL, NOT_BLANK]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL]
Tags = Annotated[tuple[Tag, ...], Field(max_length=MAX_TAGS, fail_fast=True)]
Actor = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    WITHOUT_NUL,
    Field(description="Person or program that makes the request, for history and audit."),
]
ReasonText = Annotated[
    str,
    StringConstraints(max_length=2_000),
    WITHOUT_NUL,
    Field(description="Reason of the change, for history and audit."),
]
KnowledgeSource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
"""Origin of an item: `manual`, `import`, `suggestion`, `log_learning`, `test_learning`, or a name of your own."""
KnowledgeId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
"""Id that skillbus assigns: a UUID of version 7."""
ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=300), WITHOUT_NUL]
Priority = Annotated[int, Field(ge=0, le=10)]
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Version of an item in a request; 32 bits, as databases store it."""
DEFAULT_PRIORITY: Final = 5
ANYBODY: Final = "anonymous"
"""Actor of requests that name none."""
MANUAL: Final = "manual"
IMPORTED: Final = "import"
SUGGESTED: Final = "suggestion"
"""Source of items that somebody suggested."""


class KnowledgeDraft(Message):
    """Content of a knowledge item, as people, imports and learning write it."""

    type: KnowledgeType = NOTE
    title: KnowledgeTitle
    content: KnowledgeContent
    """Markdown, stored unchanged. Programs that display it must sanitize it."""
    scope: Scope = ""
    tags: Tags = ()
    """Keywords in the given order, without repetitions."""
    priority: Priority = DEFAULT_PRIORITY
    """Importance. 10 is the highest."""
    source: KnowledgeSource = MANUAL
    """Origin: `manual`, `import`, `suggestion`, `log_learning`, `test_learning`, or another name."""
    source_ref: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] = ""
    """Reference inside the source, such as the id of a task or the name of a file."""
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] = ""
    """Person or team that is responsible for the item."""
    lang: Annotated[str, StringConstraints(max_length=35), WITHOUT_NUL] = ""
    """Language as a BCP 47 tag. Empty means unknown."""
    valid_from: Instant | None = None
    """The item is found from this time on."""
    valid_to: Instant | None = None
    """The item is not found from this time on."""
    external_id: ExternalId | None = None
    """Id in another system, unique in a project. An import with the same id writes a new version of the item."""


class KnowledgeItem(KnowledgeDraft):
    """Knowledge item, as the record holds it."""

    content: Annotated[str, StringConstraints(max_length=CONTENT_CHARACTERS)]
    """Markdown. Cut if the request limits its length."""
    id: KnowledgeId
    project: Project = DEFAULT_PROJECT
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    version: int = Field(ge=1)
    digest: str
    """SHA-256 of everything that search uses, in hexadecimal. Equal digests mean equal points in the index."""
    created_at: Instant
    created_by: Actor = ANYBODY
    """Actor of the first version."""
    updated_at: Instant
    updated_by: Actor = ANYBODY
    """Actor of the current version."""


class KnowledgeRef(ProjectMessage):
    """Item at a version."""

    id: KnowledgeId
    version: int = Field(ge=1)


EXAMPLE_ID: Final = "01890000-0000-7000-8000-000000000000"
