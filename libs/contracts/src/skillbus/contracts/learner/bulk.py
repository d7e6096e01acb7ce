"""Imports and exports of many knowledge items."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    Actor,
    KnowledgeId,
    KnowledgeItem,
    KnowledgeSource,
    KnowledgeStatus,
    KnowledgeTypes,
    ReasonText,
)
from skillbus.contracts.message import Message, ProjectMessage

MAX_ITEMS: Final = 200
"""Most items of one `put_knowledge` request."""


class PutKnowledge(ProjectMessage):
    """Items to create, or to update if `external_id` or `id` is known. Each is accepted or rejected on its own."""

    items: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    """Values that should each be a `KnowledgeDraft`. An `id` that is not the id of an item is used as the
    `external_id`."""
    source: KnowledgeSource | None = None
    """Source of items that name none. Absent means `import`."""
    status: KnowledgeStatus = KnowledgeStatus.ACTIVE
    """Status of new items."""
    dry_run: bool = False
    """True reports the results without writing anything."""
    wait_indexed_s: float | None = Field(default=None, ge=0, le=120)
    """Time in seconds that the reply waits for the index; the learner's own setting if absent."""
    actor: Actor = ANYBODY
    reason: ReasonText = ""


class KnowledgePutOutcome(StrEnum):
    """Result of putting one item."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


class KnowledgeItemPut(Message):
    """Result for one item."""

    id: str | None = None
    """Id of the item. Absent if the item was rejected."""
    external_id: str | None = None
    outcome: KnowledgePutOutcome
    version: int | None = None
    error: str | None = None


class KnowledgePut(Message):
    """Result for each item, in the order of the request."""

    results: tuple[KnowledgeItemPut, ...]
    indexed: bool
    """True if the index already holds all of them."""
    unindexed: int = Field(default=0, ge=0)
    """Number of items of the request that the index does not have yet."""


class ExportKnowledge(ProjectMessage):
    """Query for one page of whole items, ordered by id."""

    limit: int = Field(default=100, ge=1, le=200)
    after: KnowledgeId | None = None
    statuses: Annotated[tuple[KnowledgeStatus, ...], Field(max_length=3)] = (KnowledgeStatus.ACTIVE,)
    types: KnowledgeTypes = ()


class KnowledgeExported(Message):
    """One page of whole items. It can be shorter than `limit`, because all items must fit into one message."""

    items: tuple[KnowledgeItem, ...]
    next: str | None = None


PUT_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="put_knowledge",
    request=PutKnowledge,
    reply=KnowledgePut,
    summary="Write up to 200 items. Unchanged items get no new version.",
    stores_data=True,
    timeout_s=60.0,
    example={
        "items": [{"id": "faq-1", "type": "module_context", "title": "APISIX", "content": "An API gateway."}],
    },
    act=AuditedAct(made="results.id", details=("status",), not_with="dry_run"),
)
EXPORT_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="export_knowledge",
    request=ExportKnowledge,
    reply=KnowledgeExported,
    summary="Return one page of whole items.",
    is_read=True,
    example={"limit": 10},
)
