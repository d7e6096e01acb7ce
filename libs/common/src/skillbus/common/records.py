"""Records that several processes write: each write names the revision it was based on."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from skillbus.contracts.errors import ErrorCode, RequestError

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class StoredRecord(Generic[RecordT]):
    """A record and the revision that the next write must name."""

    record: RecordT
    revision: int


class RecordVersion(NamedTuple, Generic[RecordT]):
    """The last revision of a key, 0 if it never had one. `record` is None if it was deleted or cannot be read."""

    record: RecordT | None
    revision: int


class WriteConflictError(RequestError):
    """Somebody else wrote the record since it was read. Read it again before the next attempt."""

    def __init__(self, subject: str) -> None:
        super().__init__(ErrorCode.CONFLICT, f"{subject} was changed by somebody else at the same time: try again")
