"""Records in memory that decide who is let in, kept current by a subscription, so that a check asks nobody."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from skillbus.contracts.errors import ErrorCode, RequestError


class RevocableRecord(Protocol):
    """Record that a `RecordRing` holds."""

    @property
    def id(self) -> str:
        """Id of the record."""
        ...

    @property
    def revoked_at(self) -> datetime | None:
        """Time from which the record lets nobody in."""
        ...


RevocableT = TypeVar("RevocableT", bound=RevocableRecord)


class RecordRing(Generic[RevocableT]):
    """Records by id.

    A revoked record never becomes valid again: a valid copy that arrives later is an older version.
    """

    def __init__(self) -> None:
        self._records: dict[str, RevocableT] = {}
        self.is_loaded = False
        """False until all records were read, at the start and after each reconnection."""
        self.check_connection: Callable[[], None] = lambda: None
        """Called before a look-up. It sets `is_loaded` to False if changes may have been missed."""

    def find_current(self, record_id: str) -> RevocableT | None:
        """Return a record as it is now. Raise RequestError (`unavailable`) while the records are not loaded."""
        self.check_connection()
        if not self.is_loaded:
            raise RequestError(ErrorCode.UNAVAILABLE, "The keys were not read yet: try again in a moment.")
        return self._records.get(record_id)

    def find_record(self, record_id: str) -> RevocableT | None:
        """Return a record as it was last heard of."""
        return self._records.get(record_id)

    def put_record(self, record: RevocableT) -> None:
        """Add a record, or change it."""
        known = self._records.get(record.id)
        if known is None or known.revoked_at is None:
            self._records[record.id] = record

    def drop_record(self, record_id: str) -> None:
        """Forget a record that was deleted."""
        self._records.pop(record_id, None)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all known records."""
        return frozenset(self._records)

    @property
    def records(self) -> tuple[RevocableT, ...]:
        """All known records."""
        return tuple(self._records.values())

    def replace_records(self, records: Iterable[RevocableT], known_before: frozenset[str]) -> None:
        """Take over the stored records. Drop those of `known_before`, the ids when the reading began, that are gone.

        Records that were made during the reading stay.
        """
        stored = {record.id: record for record in records}
        for record_id in known_before - stored.keys():
            self.drop_record(record_id)
        for record in stored.values():
            self.put_record(record)
        self.is_loaded = True
