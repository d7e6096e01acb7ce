"""Parameters and bodies of the routes about knowledge."""

from typing import Annotated, Final

from fastapi import Header, Path, Query
from pydantic import BeforeValidator, Field, JsonValue, StringConstraints

from skillbus.contracts.learner.bulk import ExportKnowledge
from skillbus.contracts.learner.items import KnowledgeChanges, ListKnowledge
from skillbus.contracts.learner.knowledge import (
    EXAMPLE_ID,
    Actor,
    Instant,
    KnowledgeId,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeTypes,
    ReasonText,
    Tags,
    VersionNumber,
)
from skillbus.contracts.learner.usage import UsedFor
from skillbus.contracts.message import WITHOUT_NUL, Message, Project, ProjectMessage
from skillbus.contracts.scope import Scope

HTTP: Final = "http"
"""Actor of requests that name none."""
_EXAMPLE_TAG: Final = '"3"'


def _decode_utf8(value: object) -> object:
    """Return a header as UTF-8. Starlette decodes every byte as one character."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise ValueError("is not UTF-8: encode it as UTF-8") from error


_UTF8: Final = BeforeValidator(_decode_utf8)
ItemInPath = Annotated[KnowledgeId, Path(alias="id", description="Id of the item.", examples=[EXAMPLE_ID])]
ReasonInQuery = Annotated[ReasonText, Query(description="Reason of the change, for history and audit.")]
ActorInHeader = Annotated[
    Actor | None,
    _UTF8,
    Header(
        alias="Skillbus-Actor",
        description="Person or program that makes the request, in UTF-8, for history and audit. Absent means the "
        "`actor` of the body, or `http`.",
        examples=["lin"],
    ),
]
KeyInHeader = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=200), WITHOUT_NUL] | None,
    _UTF8,
    Header(
        alias="Idempotency-Key",
        description="Key that makes a repetition safe: the same key with the same body within one day returns the "
        "first result.",
        examples=["6f1b0a52-3f1c-4c1e-9d57-8d1f0a6b1d2e"],
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='`ETag` of the version that you read, such as `"3"`. The reply is 412 if the item has another one.',
        examples=[_EXAMPLE_TAG],
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description='`ETag` of the version that you have, such as `"3"`. The reply is 304 if the item still has it.',
        examples=[_EXAMPLE_TAG],
    ),
]


def choose_actor(header: str | None, body: Message | None = None) -> str:
    """Return the actor of a request: from the header, else from the body, else `http`."""
    in_body = getattr(body, "actor", None) if body is not None and "actor" in body.model_fields_set else None
    return header or in_body or HTTP


class KnowledgePageQuery(ProjectMessage):
    """Query for one page of items. Repeat a parameter to give several values."""

    limit: int = Field(default=50, ge=1, le=200)
    """Most items of the page."""
    after: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`next` of another page: list the items behind it."""
    before: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """`previous` of another page: list the items in front of it. Cannot be combined with `after`."""
    type: KnowledgeTypes = ()
    """List only these types. Empty means all."""
    status: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    """List only these statuses."""
    tags: Tags = ()
    """List only items with at least one of these tags."""
    all_tags: Tags = ()
    """List only items with all of these tags."""
    scope: Scope | None = None
    """List only items with exactly this scope. An empty value means general items."""
    source: KnowledgeSource | None = None
    """List only items of this source."""
    owner: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """List only items of this owner."""
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    """List only items with all of these words in title or content, ignoring case."""

    def to_request(self) -> ListKnowledge:
        """Return the request on the bus."""
        fields = self.model_dump(exclude={"type", "status"})
        return ListKnowledge(types=self.type, statuses=self.status, **fields)


class KnowledgeExportQuery(ProjectMessage):
    """Query for items to export. Repeat a parameter to give several values."""

    type: KnowledgeTypes = ()
    """Export only these types. Empty means all."""
    status: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    """Export only these statuses."""

    def to_request(self) -> ExportKnowledge:
        """Return the request on the bus."""
        return ExportKnowledge(project=self.project, types=self.type, statuses=self.status)


class KnowledgeItemQuery(ProjectMessage):
    """Version of the wanted item."""

    version: VersionNumber | None = None
    """Wanted version. Absent means the current one."""
    as_of: Instant | None = None
    """Return the version of this time. Cannot be combined with `version`."""


class ItemChangesBody(KnowledgeChanges):
    """Changes of an item. It may be sent back as it was read: what this route does not change is ignored."""

    id: JsonValue = None
    """Ignored, as the fields below: the path and the query name the item."""
    project: JsonValue = None
    status: JsonValue = None
    version: JsonValue = None
    digest: JsonValue = None
    created_at: JsonValue = None
    created_by: JsonValue = None
    updated_at: JsonValue = None
    updated_by: JsonValue = None


class RestoreBody(Message):
    """Version to restore."""

    version: VersionNumber | None = None
    """Version to restore as a new version. Absent takes the item out of the archive."""
    reason: ReasonText = ""


class FeedbackBody(Message):
    """Feedback on an item. For each actor and query only the latest feedback counts."""

    helpful: bool
    """True if the item helped with the query."""
    query: UsedFor = ""
    """Query that the item was found for."""
    request_id: Annotated[str, StringConstraints(max_length=64), WITHOUT_NUL] = ""
    """Id of the search or context, if it is known."""
    comment: ReasonText = ""
    """Comment of the actor."""


class ParentBody(Message):
    """Parent of a project."""

    parent: Project | None
    """Parent project. Null removes the parent."""
