"""Ports of the record of items. Every method raises KnowledgeUnavailableError."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from skillbus.contracts.learner.items import KnowledgeSummary, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.proposals import ListProposals, WaitingProposal
from skillbus.contracts.learner.versions import KnowledgeVersion
from skillbus.learner.domain.errors import LearnerError
from skillbus.learner.domain.item.lifecycle import ItemChange
from skillbus.learner.domain.item.review import Review

Decide: TypeAlias = Callable[[KnowledgeItem], ItemChange | None]
"""Decides how an item changes; returns None to leave it. Raises LearnerError to refuse."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    item: KnowledgeItem
    indexed: bool
    """True if the index is known to have the item at this version."""
    repeated: bool
    """True if nothing was written because the record already said so."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Key of a request that must take effect once."""

    key: str
    request_digest: str
    """Digest of the request, to detect another request with the same key."""
    since: datetime
    """Keys used before this moment have expired."""


@dataclass(frozen=True, slots=True)
class ReviewedItem:
    """Outcome of a decision about one item."""

    item: KnowledgeItem
    """The item after the decision."""
    written: tuple[KnowledgeItem, ...]
    """Items with a new version, the other one of a decision about two items included."""


class RecordHealth(Protocol):
    """The database, for health checks."""

    async def check_record(self) -> None:
        """Return if the database answers and committed the last write."""


class KnowledgeStore(Protocol):
    """Writes versions. A change, its history, its audit entry and its outbox row are one transaction."""

    async def create_item(self, change: ItemChange, key: IdempotencyKey | None) -> WriteOutcome:
        """Write a new item. Raises ExternalIdTakenError, KeyReusedError, ConcurrentChangeError."""

    async def change_item(self, project: str, item: str, decide: Decide) -> WriteOutcome:
        """Write what `decide` returns. Raises UnknownItemError, ExternalIdTakenError, ConcurrentChangeError."""


class ReviewStore(Protocol):
    """Decisions about pending items, and the proposals that wait for one."""

    async def review_items(
        self, project: str, items: Sequence[str], review: Review
    ) -> Sequence[ReviewedItem | LearnerError]:
        """Decide on each item, and return outcomes in order; a refusal affects its item only."""

    async def list_proposals(self, wanted: ListProposals, now: datetime) -> tuple[Sequence[WaitingProposal], int]:
        """Return up to `wanted.limit` + 1 proposals that wait, newest first, and the number of all."""

    async def get_proposal(self, project: str, item: str) -> WaitingProposal:
        """Return the proposal of an item, also after its review. Raises UnknownItemError, NoProposalError."""


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Position of an item in a list."""

    updated_at: datetime
    item: str


@dataclass(frozen=True, slots=True)
class ItemPage:
    items: Sequence[KnowledgeSummary]
    total: int
    """Number of items on all pages."""
    more: bool


@dataclass(frozen=True, slots=True)
class VersionPage:
    """Page of the versions of an item, newest first."""

    versions: Sequence[KnowledgeVersion]
    total: int
    more: bool


class KnowledgeReader(Protocol):
    """Reads items of one project. An item of another project counts as unknown."""

    async def get_current(self, project: str, item: str) -> KnowledgeItem:
        """Return the newest version. Raises UnknownItemError."""

    async def get_version(self, project: str, item: str, version: int) -> KnowledgeItem:
        """Return one version. Raises UnknownItemError, UnknownVersionError."""

    async def get_as_of(self, project: str, item: str, moment: datetime) -> KnowledgeItem:
        """Return the newest version at a moment. Raises UnknownItemError, UnknownVersionError."""

    async def list_items(self, wanted: ListKnowledge, start: ListPosition | None) -> ItemPage:
        """Return up to `wanted.limit` items behind `start`, newest change first.

        With `wanted.before` they are those in front of `start`, the nearest first.
        """

    async def list_versions(self, project: str, item: str, before: int | None, limit: int) -> VersionPage:
        """Return up to `limit` versions, as many as fit into a message. Raises UnknownItemError."""
