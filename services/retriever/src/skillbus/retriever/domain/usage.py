"""Usage statistics: answered requests that wait to be sent to the learner, in batches of one project."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from skillbus.common.paging import JSON_CHARACTER_BYTES, cut_page
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.learner.usage import MAX_ANSWERED, AnsweredRequest, KnowledgeUse, KnowledgeUsed
from skillbus.contracts.retriever.knowledge_search import ContextItem

_USE_BYTES: Final = 256
"""An id and a project of 64 characters each, two numbers, and the field names."""
_REQUEST_BYTES: Final = 1024
"""The rest of a request: an id of 64 characters of any kind, a scene of 64, a time, and the field names."""


class UsageLog(Protocol):
    """Queues answered requests, which are sent to the learner later."""

    def note(self, project: str, answered: AnsweredRequest) -> None:
        """Remember an answered request. Returns at once and never fails: no answer waits for its statistics."""
        ...


@dataclass(frozen=True, slots=True)
class UsageNote:
    """An answered request of a project."""

    project: str
    answered: AnsweredRequest
    at: float
    """Seconds of a monotonic clock."""


class UsageQueue:
    """The newest `size` notes, oldest first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._notes: deque[UsageNote] = deque()

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def is_half_full(self) -> bool:
        """True if notes should be published before new ones find no room."""
        return len(self._notes) >= max(self._size // 2, 1)

    @property
    def oldest_at(self) -> float:
        """Time of the oldest note. Raises IndexError if the queue is empty."""
        return self._notes[0].at

    def add_note(self, note: UsageNote) -> UsageNote | None:
        """Append a note. Return the oldest note if it was dropped for it."""
        dropped = self._notes.popleft() if len(self._notes) >= self._size else None
        self._notes.append(note)
        return dropped

    def take_batch(self) -> KnowledgeUsed:
        """Remove and return the oldest note and those of its project that fit into one event, in order.

        Raises IndexError if the queue is empty.
        """
        project = self._notes[0].project
        own = [(place, note) for place, note in enumerate(self._notes) if note.project == project]
        taken = dict(cut_page(own[:MAX_ANSWERED], lambda each: estimate_bytes(each[1].answered)))
        self._notes = deque(note for place, note in enumerate(self._notes) if place not in taken)
        return KnowledgeUsed(project=project, requests=tuple(note.answered for note in taken.values()))


def list_uses(items: Iterable[KnowledgeItem | ContextItem]) -> tuple[KnowledgeUse, ...]:
    """Return the uses of the items of an answer, which are in their order."""
    return tuple(
        KnowledgeUse(id=item.id, project=item.project, version=item.version, position=position)
        for position, item in enumerate(items, start=1)
    )


def estimate_bytes(answered: AnsweredRequest) -> int:
    """Return an upper bound of a request's size as JSON, without writing the JSON."""
    return _REQUEST_BYTES + JSON_CHARACTER_BYTES * len(answered.query) + _USE_BYTES * len(answered.uses)
