"""What index and search read of the knowledge base, and what the indexer tells it.

The learner publishes which items changed; the indexer reads them as they are by then, writes their vectors, and
publishes which versions the index has. The retriever takes hits as candidates, and answers what the record says of
them.
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
    KnowledgeType,
    Tags,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.contracts.scope import Scope

INDEXER: Final = "indexer"


class KnowledgeKey(Message):
    """An item of a project."""

    project: Project
    id: KnowledgeId


class ReadKnowledge(Message):
    """Items to read as they are."""

    keys: Annotated[tuple[KnowledgeKey, ...], Field(min_length=1, max_length=MAX_IDS)]


class KnowledgeRead(Message):
    """Those that are there, whatever their status."""

    items: tuple[KnowledgeItem, ...]
    left: tuple[KnowledgeKey, ...] = ()
    """What did not fit this message: ask again for these."""


class ListKnowledgeDigests(Message):
    """A page of what the index should hold, in the order of project and id."""

    project: Project | None = None
    """All when absent."""
    after: KnowledgeKey | None = None
    limit: int = Field(default=2_000, ge=1, le=5_000)


class KnowledgeItemDigest(Message):
    """An active item, and what it is told from another by."""

    project: Project
    id: KnowledgeId
    version: int
    digest: str
    indexed: bool
    """Whether the learner was told that the index has it at this version."""


class KnowledgeDigestsListed(Message):
    """A page; `next` is the `after` of the next one."""

    items: tuple[KnowledgeItemDigest, ...]
    next: KnowledgeKey | None = None


class FindKnowledge(Message):
    """What search asks of the record: which candidates may be shown, and what the index does not have yet."""

    project: Project = DEFAULT_PROJECT
    inherit: bool = True
    """Whether items of the projects above count too."""
    ids: Annotated[tuple[KnowledgeId, ...], Field(max_length=MAX_IDS)] = ()
    """Candidates, nearest first; what may not be shown is left out."""
    candidates_age_s: float | None = Field(default=None, ge=0, le=60)
    """How long ago they were looked for, in seconds: what the index got since then is told of too, for it may have been
    missed. Nothing of it where no candidates were looked for yet."""
    types: Annotated[tuple[KnowledgeType, ...], Field(max_length=4)] = ()
    tags: Tags = ()
    """One of them."""
    all_tags: Tags = ()
    """Each of them."""
    sources: Annotated[tuple[KnowledgeSource, ...], Field(max_length=50)] = ()
    scope: Scope | None = None
    """Only items that say something about it."""
    at: Instant | None = None
    """Only items that are valid then; now if absent."""
    unindexed: int = Field(default=32, ge=0, le=200)
    """At most so many active items, newest first, that fit the filters and that the index does not have yet; and as
    many of those that it got since the candidates were looked for."""
    content_characters: int = Field(default=4_000, ge=0, le=32_000)
    """Of each item; the rest is left away."""
    whole: int = Field(default=MAX_IDS, ge=0, le=MAX_IDS)
    """Of so many candidates, the first ones, the content is told; of the others all but that."""


class FoundItem(Message):
    """An item that may be shown."""

    item: KnowledgeItem
    content_cut: bool = False
    content_left: bool = False
    """Whether it is told without its content, which was not asked for."""
    helpful: float = 0.0
    """Votes of people, newer ones more: each halves in 180 days. `unhelpful` likewise."""
    unhelpful: float = 0.0
    indexed_version: int = 0
    """0: never indexed."""
    lately: bool = False
    """Whether the index may have got this version after the candidates were looked for."""


class KnowledgeMatched(Message):
    """Of the candidates those that may be shown, and what the index lacks."""

    items: tuple[FoundItem, ...]
    """Candidates in the order of the request; then others: what the index lacks or has at an older version, and what it
    got lately, each newest first."""
    projects: tuple[Project, ...]
    """Whose items are seen: the project, then those above it."""
    left: tuple[KnowledgeId, ...] = ()
    """Candidates that did not fit this message: ask again for these."""


class KnowledgeChanged(Message):
    """Items were written: the index has to follow."""

    items: Annotated[tuple[KnowledgeRef, ...], Field(max_length=MAX_IDS)]


class KnowledgeIndexed(Message):
    """The index has these items at these versions, or, of archived and pending ones, does not have them any more."""

    items: Annotated[tuple[KnowledgeRef, ...], Field(max_length=MAX_IDS)]


READ_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="read_knowledge",
    request=ReadKnowledge,
    reply=KnowledgeRead,
    summary="Items as they are now, for the index.",
    example={"keys": [{"project": "default", "id": "01890000-0000-7000-8000-000000000000"}]},
)
LIST_KNOWLEDGE_DIGESTS: Final = Endpoint(
    service=SERVICE,
    name="list_knowledge_digests",
    request=ListKnowledgeDigests,
    reply=KnowledgeDigestsListed,
    summary="What the index should hold, for a comparison with what it holds.",
    example={"limit": 100},
)
FIND_KNOWLEDGE: Final = Endpoint(
    service=SERVICE,
    name="find_knowledge",
    request=FindKnowledge,
    reply=KnowledgeMatched,
    summary="Which of some candidates may be shown, and what the index does not have yet.",
    example={"ids": ["01890000-0000-7000-8000-000000000000"]},
)

KNOWLEDGE_CHANGED: Final = Event(
    SERVICE, "knowledge", "changed", KnowledgeChanged, "Items were written: the index has to follow."
)
KNOWLEDGE_INDEXED: Final = Event(
    INDEXER, "knowledge", "indexed", KnowledgeIndexed, "The index has items at these versions, or has let go of them."
)
