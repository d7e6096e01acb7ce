"""Many items of knowledge at once: imports and exports."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    Actor,
    KnowledgeId,
    KnowledgeItem,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeType,
    ReasonText,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project

MAX_ITEMS: Final = 200
"""Of one `put_knowledge`."""


class PutKnowledge(Message):
    """Items to write, new ones or, by their `external_id` or `id`, known ones again. Each is taken or refused alone."""

    project: Project = DEFAULT_PROJECT
    items: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    """Each a `KnowledgeDraft`. `id` is the `external_id` of a line that has none, unless it is an item's own id."""
    source: KnowledgeSource | None = None
    """Of items that name none; `import` if absent."""
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """Of new items."""
    dry_run: bool = False
    """Tell what would become of them, and write nothing."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class KnowledgePutOutcome(StrEnum):
    """What became of an item."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


class KnowledgeItemPut(Message):
    """What became of one of them."""

    id: str | None = None
    external_id: str | None = None
    outcome: KnowledgePutOutcome
    version: int | None = None
    error: str | None = None
    """Why it was rejected."""


class KnowledgePut(Message):
    """What became of each, in the order of the request."""

    results: tuple[KnowledgeItemPut, ...]
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
