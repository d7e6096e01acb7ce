"""Requests of the indexer and the retriever to the knowledge record, and the events between learner and indexer.

The learner publishes which items changed. The indexer reads their current versions, writes their vectors, and publishes
which versions the index holds. The retriever takes candidates from the index and asks the record which may be shown.
"""

from typing import Annotated, Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.learner import SERVICE
from skillbus.contracts.learner.knowledge import (
    MAX_IDS,
    Instant,
    KnowledgeId,
    KnowledgeItem,
    KnowledgeRef,
    KnowledgeSource,
    KnowledgeTypes,
    Tags,
)
from skillbus.contracts.message import Message, Project, ProjectMessage
from skillbus.contracts.scope import Scope

INDEXER: Final = "indexer"


class KnowledgeKey(Message):
    """Item of a project."""

    project: Project
    id: KnowledgeId


class ReadKnowledge(Message):
    """Items to read."""

    keys: Annotated[tuple[KnowledgeKey, ...], Field(min_length=1, max_length=MAX_IDS)]


class KnowledgeRead(Message):
    """Items that exist, in any status."""

    items: tuple[KnowledgeItem, ...]
    left: tuple[KnowledgeKey, ...] = ()
    """Items that did not fit into this message. Ask again for them."""


class ListKnowledgeDigests(Message):
    """Query for one page of the items that the index should hold, ordered by project and id."""

    project: Project | None = None
    after: KnowledgeKey | None = None
    limit: int = Field(default=2_000, ge=1, le=5_000)


class KnowledgeItemDigest(Message):
    """Active item and its digest."""

    project: Project
    id: KnowledgeId
    version: int
    digest: str
    indexed: bool
    """True if the indexer has reported this version as indexed."""


class KnowledgeDigestsListed(Message):
    """One page of active items."""

    items: tuple[KnowledgeItemDigest, ...]
    next: KnowledgeKey | None = None


class KnowledgeFilter(ProjectMessage):
    """Filter of knowledge items."""

    inherit: bool = True
    """True finds items of the project's parents too."""
    types: KnowledgeTypes = ()
    tags: Tags = ()
    all_tags: Tags = ()
    sources: Annotated[tuple[KnowledgeSource, ...], Field(max_length=50)] = ()
    scope: Scope | None = None
    """Scope of the caller. A search returns first items of exactly this scope, then items below it if it is a pattern,
    patterns that cover it, paths above it, and general items. Items of other scopes are not found. Absent means that
    scopes do not matter."""
    at: Instant | None = None
    """Find only items that are valid at this time. Absent means now."""


class FindKnowledge(KnowledgeFilter):
    """Candidates of a search, to be checked against the record."""

    ids: Annotated[tuple[KnowledgeId, ...], Field(max_length=MAX_IDS)] = ()
    """Candidates of the index. Those that may not be shown are left out of the reply."""
    content_characters: int = Field(default=4_000, ge=0, le=32_000)
    """Longest content of an item, in characters. Longer contents are cut."""


class FoundItem(Message):
    """Item that may be shown, in its current version."""

    item: KnowledgeItem
    content_cut: bool = False
    helpful: float = 0.0
    """Weight of positive votes, as `unhelpful` of negative ones. The weight of a vote halves every 180 days."""
    unhelpful: float = 0.0
    indexed_version: int = 0
    """Latest version that the index holds. 0 means none."""


class KnowledgeMatched(Message):
    """Candidates that may be shown."""

    items: tuple[FoundItem, ...]
    """Candidates in the order of the request."""
    projects: tuple[Project, ...]
    """Visible projects: the project, then its parents."""
    index_behind: int = 0
    """Number of active items of these projects that the index lacks or holds at an older version."""
    left: tuple[KnowledgeId, ...] = ()
    """Candidates that did not fit into this message. Ask again for them."""


class KnowledgeChanged(Message):
    """Items that were written. The index must follow."""

    items: Annotated[tuple[KnowledgeRef, ...], Field(max_length=MAX_IDS)]


class KnowledgeIndexed(Message):
    """Versions that the index now holds. Archived and pending items are deleted from it."""

    items: Annotated[tuple[KnowledgeRef, ...], Field(max_length=MAX_IDS)]


READ_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="read_knowledge",
    request=ReadKnowledge,
    reply=KnowledgeRead,
    summary="Return items in their current version, for the index.",
    is_read=True,
    example={"keys": [{"project": "default", "id": "01890000-0000-7000-8000-000000000000"}]},
)
LIST_KNOWLEDGE_DIGESTS: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge_digests",
    request=ListKnowledgeDigests,
    reply=KnowledgeDigestsListed,
    summary="List what the index should hold, to compare it with what it holds.",
    is_read=True,
    example={"limit": 100},
)
FIND_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="find_knowledge",
    request=FindKnowledge,
    reply=KnowledgeMatched,
    summary="Return the candidates that may be shown, in their current version.",
    is_read=True,
    example={"ids": ["01890000-0000-7000-8000-000000000000"]},
)
KNOWLEDGE_CHANGED: Final = Event(
    SERVICE, "knowledge", "changed", KnowledgeChanged, "Items were written; the index must follow."
)
KNOWLEDGE_INDEXED: Final = Event(
    INDEXER, "knowledge", "indexed", KnowledgeIndexed, "The index holds these versions, or has deleted these items."
)
