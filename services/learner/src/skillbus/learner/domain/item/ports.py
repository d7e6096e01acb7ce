"""Where items are kept, and what is read of them. All of them raise KnowledgeUnavailableError."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from skillbus.contracts.learner.items import KnowledgeSummary, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.projects import KnowledgeAuditEntry
from skillbus.contracts.learner.versions import KnowledgeVersion
from skillbus.learner.domain.errors import LearnerError
from skillbus.learner.domain.item.lifecycle import By, Change

Decide: TypeAlias = Callable[[KnowledgeItem], Change | None]
"""From an item as it is to what it becomes; None when it stays. Raises LearnerError to refuse."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an item."""

    item: KnowledgeItem
    indexed: bool
    """Whether the index is known to have it at this version."""
    repeated: bool
    """Whether nothing was written: it was so before."""


@dataclass(frozen=True, slots=True)
class Once:
    """A request that counts once."""

    key: str
    request_digest: str
    """What tells it from another with the same key."""
    since: datetime
    """Keys used before are free again."""


class Record(Protocol):
    """The database behind all of them."""

    async def check(self) -> None:
        """Returns when it answers, and kept what was last written. Raises KnowledgeUnavailableError."""
        ...


class KnowledgeStore(Protocol):
    """Writes versions, each change with its history, audit and announcement, or none of it."""

    async def create(self, change: Change, once: Once | None) -> Outcome:
        """Raises ExternalIdTakenError, KeyReusedError, ChangedMeanwhileError."""
        ...

    async def change(self, project: str, item: str, decide: Decide) -> Outcome:
        """Raises UnknownItemError, ExternalIdTakenError, ChangedMeanwhileError, and what `decide` raises."""
        ...

    async def change_each(self, project: str, items: Sequence[str], decide: Decide) -> Sequence[Outcome | LearnerError]:
        """What became of each, in their order; what is refused keeps no other from being written."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Of an item in a list."""

    updated_at: datetime
    item: str


@dataclass(frozen=True, slots=True)
class Page:
    """Of a list."""

    items: Sequence[KnowledgeSummary]
    total: int
    """Of all pages."""
    more: bool


@dataclass(frozen=True, slots=True)
class Versions:
    """Of an item, newest first."""

    versions: Sequence[KnowledgeVersion]
    total: int
    more: bool


class KnowledgeReader(Protocol):
    """Reads items of one project. An item of another one is unknown."""

    async def current(self, project: str, item: str) -> KnowledgeItem:
        """Raises UnknownItemError."""
        ...

    async def at_version(self, project: str, item: str, version: int) -> KnowledgeItem:
        """Raises UnknownItemError, UnknownVersionError."""
        ...

    async def as_of(self, project: str, item: str, moment: datetime) -> KnowledgeItem:
        """Raises UnknownItemError, UnknownVersionError."""
        ...

    async def page(self, wanted: ListKnowledge, after: Place | None) -> Page:
        """At most `wanted.limit` items, newest change first, and no more than fit a message."""
        ...

    async def versions(self, project: str, item: str, before: int | None, limit: int) -> Versions:
        """At most `limit`, and no more than fit a message. Raises UnknownItemError."""
        ...


class ProjectStore(Protocol):
    """Which project inherits from which."""

    async def parents(self, project: str) -> tuple[str, ...]:
        """Those above it, nearest first."""
        ...

    async def set_parent(self, project: str, parent: str | None, by: By) -> tuple[str, ...]:
        """Those above it then. Raises ProjectsError."""
        ...


class AuditLog(Protocol):
    """What was done."""

    async def entries(self, project: str, item: str | None, after: int, limit: int) -> Sequence[KnowledgeAuditEntry]:
        """At most `limit` with a greater sequence, oldest first."""
        ...
