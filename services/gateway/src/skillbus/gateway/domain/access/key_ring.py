"""All API keys in memory, kept current by a subscription, so that checking a key asks nobody."""

from collections.abc import Iterable
from datetime import datetime

from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.gateway.domain.access.key_lineage import KeyLineage, trace_lineage


class KeyRing:
    """API keys by id.

    A revoked key never becomes valid again: a record that says otherwise is older than the revocation.
    """

    def __init__(self) -> None:
        self._records: dict[str, ApiKeyRecord] = {}
        self.is_loaded = False
        """False until all keys were read, at the start and after each reconnection."""

    def find_record(self, key_id: str) -> ApiKeyRecord | None:
        """Return the record of a key."""
        return self._records.get(key_id)

    def trace_lineage(self, record: ApiKeyRecord) -> KeyLineage:
        """Return the ends of a key and of its makers."""
        return trace_lineage(record, self.find_record)

    def list_ended(self, before: datetime) -> tuple[ApiKeyRecord, ...]:
        """Return the keys that ended before a time, those that were made last first."""
        ended = [record for record in self._records.values() if self._is_ended(record, before)]
        return tuple(sorted(ended, key=lambda record: record.created_at, reverse=True))

    def _is_ended(self, record: ApiKeyRecord, before: datetime) -> bool:
        ends_at = self.trace_lineage(record).ends_at
        return ends_at is not None and ends_at < before

    def put_record(self, record: ApiKeyRecord) -> None:
        """Add a key, or change it."""
        known = self._records.get(record.id)
        if known is None or known.revoked_at is None:
            self._records[record.id] = record

    def drop_record(self, key_id: str) -> None:
        """Forget a key whose record was deleted."""
        self._records.pop(key_id, None)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all known keys."""
        return frozenset(self._records)

    def replace_records(self, records: Iterable[ApiKeyRecord], known_before: frozenset[str]) -> None:
        """Take over the stored keys, and drop those of `known_before`, the ids when the reading began, that are gone.

        Keys that were made during the reading stay.
        """
        stored = {record.id: record for record in records}
        for key_id in known_before - stored.keys():
            self.drop_record(key_id)
        for record in stored.values():
            self.put_record(record)
        self.is_loaded = True
