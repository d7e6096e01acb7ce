"""The outbox: changes leave the record with it and are published until the stream has them.

A change and its outbox row are one transaction. The relay publishes the oldest rows first and removes them once the
stream has them. After a crash in between it publishes them again under the same message id; a consumer that gets an
item twice reads it as it is then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from skillbus.contracts.learner.knowledge import KnowledgeRef

BATCH_ROWS: Final = 256
EVENT_REFS: Final = 64


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A version of an item that was written and not yet published."""

    sequence: int
    ref: KnowledgeRef


class Outbox(Protocol):
    """Rows that were not yet published. Every method raises KnowledgeUnavailableError."""

    async def list_oldest(self, limit: int) -> Sequence[OutboxRow]: ...

    async def remove_rows(self, rows: Sequence[OutboxRow]) -> None: ...


class ItemAnnouncer(Protocol):
    """Publishes which items changed."""

    async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        """Return once the stream has the event, which counts once per `identity`. Raises RequestError."""


@dataclass(frozen=True, slots=True)
class ItemAnnouncement:
    """One event: changes in one project, the newest of each item."""

    project: str
    refs: tuple[KnowledgeRef, ...]
    identity: str
    """Hash of the rows: sequence numbers alone would repeat in a database that was created again."""


def build_announcements(rows: Sequence[OutboxRow]) -> list[ItemAnnouncement]:
    """Return the events of outbox rows, in their order within each project, with up to 64 rows each."""
    by_project: dict[str, list[OutboxRow]] = {}
    for row in rows:
        by_project.setdefault(row.ref.project, []).append(row)
    return [
        _build_announcement(project, own[at : at + EVENT_REFS])
        for project, own in by_project.items()
        for at in range(0, len(own), EVENT_REFS)
    ]


def _build_announcement(project: str, rows: Sequence[OutboxRow]) -> ItemAnnouncement:
    newest: dict[str, KnowledgeRef] = {}
    for row in rows:
        known = newest.get(row.ref.id)
        if known is None or known.version < row.ref.version:
            newest[row.ref.id] = row.ref
    lines = "\n".join(f"{row.sequence} {row.ref.id} {row.ref.version}" for row in rows)
    identity = sha256(f"{project}\n{lines}".encode()).hexdigest()
    return ItemAnnouncement(project, tuple(newest.values()), identity)


@dataclass(frozen=True, slots=True)
class OutboxRelay:
    """Publishes and empties the outbox."""

    outbox: Outbox
    announcer: ItemAnnouncer

    async def relay_changes(self) -> bool:
        """Publish the oldest rows, and return True if there may be more.

        After a RequestError, when the stream did not accept an event, all rows of this call stay in the outbox.
        """
        rows = await self.outbox.list_oldest(BATCH_ROWS)
        for event in build_announcements(rows):
            await self.announcer.announce_change(event.project, event.refs, event.identity)
        if rows:
            await self.outbox.remove_rows(rows)
        return len(rows) == BATCH_ROWS
