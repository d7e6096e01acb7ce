"""Answers that wait to be told of, many of a project at a time."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.learner.usage import MAX_ANSWERED, AnsweredRequest, KnowledgeUsed

EVENT_BYTES: Final = 768 * 1024
"""Of an event, by `most_bytes` of what it tells; a message of the bus has 1 MiB."""
_CHARACTER_BYTES: Final = 6
"""A control character in JSON, as `\\u0001`; no other takes more than four."""
_USE_BYTES: Final = 256
"""An id and a project of 64 characters each, two numbers, and what they are called."""
_REQUEST_BYTES: Final = 1024
"""Besides its query and its uses: an id of 64 characters of any kind, a scene of 64, a moment, and their names."""


@dataclass(frozen=True, slots=True)
class Note:
    """An answer to a request of a project."""

    project: str
    answered: AnsweredRequest
    at: float
    """When it was taken, in seconds of a clock that only goes forward."""


class WaitingUses:
    """The newest `size` notes, oldest first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._notes: deque[Note] = deque()

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def many(self) -> bool:
        """Whether so many wait that some should be told before there is no room for others."""
        return len(self._notes) >= max(self._size // 2, 1)

    @property
    def since(self) -> float:
        """When the oldest was taken. Raises IndexError when none waits."""
        return self._notes[0].at

    def add(self, note: Note) -> Note | None:
        """Keep a note. Gives the oldest when it had to make room."""
        dropped = self._notes.popleft() if len(self._notes) >= self._size else None
        self._notes.append(note)
        return dropped

    def take(self) -> KnowledgeUsed:
        """The oldest and what is told with it: of its project, in their order, as many as an event carries.

        Raises IndexError when none waits.
        """
        project, room = self._notes[0].project, EVENT_BYTES
        taken: list[AnsweredRequest] = []
        others: list[Note] = []
        while self._notes and len(taken) < MAX_ANSWERED:
            note = self._notes[0]
            if note.project == project:
                room -= most_bytes(note.answered)
                if taken and room < 0:
                    break
                taken.append(note.answered)
            else:
                others.append(note)
            self._notes.popleft()
        self._notes.extendleft(reversed(others))
        return KnowledgeUsed(project=project, requests=tuple(taken))


def most_bytes(answered: AnsweredRequest) -> int:
    """No fewer than it takes as JSON: known at once, where its JSON is not written yet."""
    return _REQUEST_BYTES + _CHARACTER_BYTES * len(answered.query) + _USE_BYTES * len(answered.uses)
