"""Ports to records of one kind, and to the list of them that is kept in memory.

Methods raise RequestError when the records are unavailable.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from skillbus.common.records import RecordVersion
from skillbus.indexer.domain.index.ports import Key

RecordT = TypeVar("RecordT")
ListedT = TypeVar("ListedT")
ListedT_co = TypeVar("ListedT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class RecordUpdate(Generic[RecordT]):
    """A record to write over a revision, 0 for a key that never had one."""

    record: RecordT
    over: int


class RecordStore(Protocol[RecordT]):
    """Records by project and id."""

    async def load_record(self, key: Key) -> RecordVersion[RecordT] | None:
        """Return one record; None if it never existed."""

    async def load_records(self, keys: Sequence[Key]) -> Mapping[Key, RecordVersion[RecordT]]:
        """Return the records that exist or existed.

        A new record in place of a deleted or damaged one must name its revision.
        """

    async def save_records(self, updates: Sequence[RecordUpdate[RecordT]]) -> Sequence[int | None]:
        """Write records and return their revisions; None for a record that somebody else wrote since.

        After an error some of them may have been written.
        """

    async def delete_records(self, revisions: Mapping[Key, int]) -> Sequence[bool]:
        """Delete the records that are still at their revisions. Return for each whether it was deleted."""

    async def is_unchanged_since(self, revisions: Mapping[Key, int]) -> bool:
        """Return True if nobody, in any process, wrote these records after their revisions; False when in doubt."""

    def iterate_records(self, project: str | None = None) -> AsyncIterator[RecordT]:
        """Yield the records of a project or of all projects, in no order."""


class ListedRecords(Protocol[ListedT_co]):
    """List of all records, kept in memory.

    A method sees every write that ended before it was called, in any process.
    """

    async def list_project(self, project: str) -> Sequence[ListedT_co]:
        """Return the records of a project, in their order."""

    async def list_all(self, project: str | None = None) -> Sequence[ListedT_co]:
        """Return the records of a project or of all projects, in no order."""

    async def find(self, keys: Sequence[Key]) -> Mapping[Key, ListedT_co]:
        """Return the records that exist."""
