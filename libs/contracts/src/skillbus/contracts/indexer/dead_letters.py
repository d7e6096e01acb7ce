"""Dead letters: events that a consumer gave up on after its retries, kept for an operator.

They are shared by all projects. The indexer answers for all services.
"""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import Message

MAX_DEAD_LETTERS: Final = 100
MAX_BODY_CHARACTERS: Final = 100_000

Sequence = Annotated[int, Field(ge=1, le=2**53, description="Number of the dead letter. It is never used again.")]


class DeadLetterSummary(Message):
    """An event that a consumer gave up on: its subject, its project if it belongs to one, and its size."""

    sequence: Sequence
    stream: str
    consumer: str
    """Consumer of the stream that gave up, such as `learner-uses`."""
    subject: str
    project: str | None = None
    error: str
    """Error of the last delivery."""
    stored_at: datetime
    """Time when the consumer gave up."""
    size_bytes: int


class DeadLetter(DeadLetterSummary):
    """A dead letter with its event."""

    body: str
    """Event as text, usually JSON, at most 100,000 characters."""
    body_truncated: bool = False
    """True if `body` is not the whole event."""


class ListDeadLetters(Message):
    """Page of dead letters, oldest first."""

    consumer: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    after: Annotated[int, Field(ge=0, le=2**53)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_DEAD_LETTERS)] = MAX_DEAD_LETTERS


class DeadLettersListed(Message):
    """Page of dead letters."""

    dead_letters: tuple[DeadLetterSummary, ...]
    total: int
    next: int | None = None


class DeadLetterSelector(Message):
    """Wanted dead letter."""

    sequence: Sequence


class DeadLetterReplayed(Message):
    """Result of a replay."""

    sequence: Sequence
    subject: str
    """Subject to which the event was published again. Every consumer of the subject receives it."""


class DeadLetterDropped(Message):
    """Result of dropping a dead letter."""

    sequence: Sequence


LIST_DEAD_LETTERS: Final = Endpoint(
    service=SERVICE,
    name="list_dead_letters",
    request=ListDeadLetters,
    reply=DeadLettersListed,
    summary="List the events that consumers gave up on, oldest first.",
    is_read=True,
    example={"limit": 20},
)
GET_DEAD_LETTER: Final = Endpoint(
    service=SERVICE,
    name="get_dead_letter",
    request=DeadLetterSelector,
    reply=DeadLetter,
    summary="Return a dead letter with its event.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    example={"sequence": 7},
)
REPLAY_DEAD_LETTER: Final = Endpoint(
    service=SERVICE,
    name="replay_dead_letter",
    request=DeadLetterSelector,
    reply=DeadLetterReplayed,
    summary="Publish the event of a dead letter again, and delete the dead letter once the event is stored.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    example={"sequence": 7},
    act=AuditedAct("sequence"),
)
DROP_DEAD_LETTER: Final = Endpoint(
    service=SERVICE,
    name="drop_dead_letter",
    request=DeadLetterSelector,
    reply=DeadLetterDropped,
    summary="Delete a dead letter without replaying it.",
    raises=(ErrorCode.NOT_FOUND,),
    example={"sequence": 7},
    act=AuditedAct("sequence"),
)
