"""The outbox: what was written leaves the record with it, and is told to others until they have it.

A change and its row here are one transaction. The relay tells the oldest rows first and takes them away once the
stream has them; a crash in between tells them again, under the same name, and whoever hears of an item twice reads it
as it is by then.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from skillbus.contracts.learner.knowledge import KnowledgeRef

TAKEN_AT_ONCE: Final = 256
REFS_OF_AN_EVENT: Final = 64


@dataclass(frozen=True, slots=True)
class Written:
    """A row of the outbox: an item came to a version."""

    sequence: int
    ref: KnowledgeRef


class Outbox(Protocol):
    """What was written and not told yet."""

    def taken(self, limit: int) -> AbstractAsyncContextManager[Sequence[Written]]:
        """The oldest rows, which are gone once the context is left without an error.

        Raises:
            KnowledgeUnavailableError: the record does not answer.
        """
        ...


class Announcer(Protocol):
    """Tells others which items changed."""

    async def changed(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        """Returns when the stream has it; under the same `identity` it counts once. Raises PostponedError."""
        ...


@dataclass(frozen=True, slots=True)
class Announcement:
    """What is told at once: changes of one project, the newest of each item."""

    project: str
    refs: tuple[KnowledgeRef, ...]
    identity: str
    """Of these rows, in any database: numbers alone would come again in one that was made anew."""


def announcements(rows: Sequence[Written]) -> list[Announcement]:
    """What to tell of rows, in their order within each project, up to 64 items at once."""
    of_project: dict[str, list[Written]] = {}
    for row in rows:
        of_project.setdefault(row.ref.project, []).append(row)
    return [
        _announcement(project, mine[at : at + REFS_OF_AN_EVENT])
        for project, mine in of_project.items()
        for at in range(0, len(mine), REFS_OF_AN_EVENT)
    ]


def _announcement(project: str, rows: Sequence[Written]) -> Announcement:
    newest: dict[str, KnowledgeRef] = {}
    for row in rows:
        known = newest.get(row.ref.id)
        if known is None or known.version < row.ref.version:
            newest[row.ref.id] = row.ref
    said = "\n".join(f"{row.sequence} {row.ref.id} {row.ref.version}" for row in rows)
    identity = sha256(f"{project}\n{said}".encode()).hexdigest()
    return Announcement(project, tuple(newest.values()), identity)


class Relay:
    """Empties the outbox."""

    def __init__(self, outbox: Outbox, announcer: Announcer) -> None:
        self._outbox = outbox
        self._announcer = announcer

    async def relay(self) -> bool:
        """Tell the oldest rows; whether there may be more.

        Raises:
            KnowledgeUnavailableError: the record does not answer.
            PostponedError: the stream did not take it. What was not told stays in the outbox.
        """
        async with self._outbox.taken(TAKEN_AT_ONCE) as rows:
            for told in announcements(rows):
                await self._announcer.changed(told.project, told.refs, told.identity)
        return len(rows) == TAKEN_AT_ONCE
