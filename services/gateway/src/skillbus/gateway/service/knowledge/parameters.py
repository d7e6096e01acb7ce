"""What requests about knowledge have in common over HTTP: what stands in their paths, queries, headers and bodies."""

from typing import Annotated, Final

from fastapi import Header, Path, Query
from pydantic import BeforeValidator, Field, StringConstraints

from skillbus.contracts.learner.bulk import ExportKnowledge
from skillbus.contracts.learner.items import ListKnowledge
from skillbus.contracts.learner.knowledge import (
    Actor,
    Instant,
    KnowledgeId,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeType,
    ReasonText,
    Tags,
    VersionNumber,
)
from skillbus.contracts.learner.usage import UsedFor
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, Message, Project
from skillbus.contracts.scope import Scope

HTTP: Final = "http"
"""Who did what came without a name over HTTP."""
EXAMPLE_ID: Final = "01890000-0000-7000-8000-000000000000"
_EXAMPLE_TAG: Final = '"3"'


def _as_utf8(value: object) -> object:
    """A header as clients send it; Starlette reads every byte as a character."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise ValueError("is not UTF-8: send it so") from error


_UTF8: Final = BeforeValidator(_as_utf8)
ItemInPath = Annotated[
    KnowledgeId, Path(alias="id", description="The item's id, as skillbus gave it.", examples=[EXAMPLE_ID])
]
ProjectInQuery = Annotated[Project, Query()]
WhyInQuery = Annotated[ReasonText, Query(description="For the history and the audit.")]
ActorInHeader = Annotated[
    Actor | None,
    _UTF8,
    Header(
        alias="Skillbus-Actor",
        description="Who does it, for the history and the audit, in UTF-8; what the body says, or `http`, if absent.",
        examples=["lin"],
    ),
]
KeyInHeader = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=200), WITHOUT_NUL] | None,
    _UTF8,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same body again, within a day, is answered with what was made first.",
        examples=["6f1b0a52-3f1c-4c1e-9d57-8d1f0a6b1d2e"],
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='The `ETag` of the version that was read, as `"3"`: 412 when the item is at another one.',
        examples=[_EXAMPLE_TAG],
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description='The `ETag` of a version that is at hand, as `"3"`: 304 when it is still that one.',
        examples=[_EXAMPLE_TAG],
    ),
]


def acting(header: str | None, body: Message | None = None) -> str:
    """Who does it: by the header, else by the body if it says so itself."""
    said = getattr(body, "actor", None) if body is not None and "actor" in body.model_fields_set else None
    return header or said or HTTP


class KnowledgePage(Message):
    """A page of items, by what they must have; lists are given by naming a parameter again."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=50, ge=1, le=200)
    after: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`next` of the page before."""
    type: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()
    status: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    tags: Tags = ()
    """Items that have one of them."""
    all_tags: Tags = ()
    """Items that have each of them."""
    scope: Scope | None = None
    """Items of exactly this scope; given and empty: general ones."""
    source: KnowledgeSource | None = None
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """Items with all of these words in title or content, whatever the case."""

    def request(self) -> ListKnowledge:
        """The same as it crosses the bus."""
        said = self.model_dump(exclude={"type", "status"})
        return ListKnowledge(types=self.type, statuses=self.status, **said)


class KnowledgeWanted(Message):
    """Items to export; lists are given by naming a parameter again."""

    project: Project = DEFAULT_PROJECT
    type: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()
    status: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)

    def request(self) -> ExportKnowledge:
        """The same as it crosses the bus."""
        return ExportKnowledge(project=self.project, types=self.type, statuses=self.status)


class ItemWanted(Message):
    """An item as it is; or at a version, or as it was at a time."""

    project: Project = DEFAULT_PROJECT
    version: VersionNumber | None = None
    as_of: Instant | None = None
    """As the record had it then. Not together with `version`."""


class RestoreBody(Message):
    """What an item becomes again: what it was, out of the archive; or, with `version`, as it was then."""

    version: VersionNumber | None = None
    reason: ReasonText = ""


class FeedbackBody(Message):
    """Whether an item helped with a query. The last word of an actor about a query counts."""

    helpful: bool
    query: UsedFor = ""
    request_id: Annotated[str, StringConstraints(max_length=64), WITHOUT_NUL] = ""
    """Of the search or the context, where it is known."""
    comment: ReasonText = ""


class ParentBody(Message):
    """Where a project looks beside its own items."""

    parent: Project | None
    """None: nowhere else."""
