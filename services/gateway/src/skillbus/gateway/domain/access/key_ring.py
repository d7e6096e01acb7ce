"""All API keys in memory, kept current by a subscription, so that checking a key asks nobody."""

from collections.abc import Iterable

from skillbus.contracts.gateway.api_keys import ApiKeyRecord


class KeyRing:
    """API keys by id.

    A revoked key never becomes valid again: a record that says otherwise is older than the revocation.
    """

    def __init__(self) -> None:
        self._records: dict[str, ApiKeyRecord] = {}
        self.is_loaded = False
        """False until all keys were read once."""

    def find_record(self, key_id: str) -> ApiKeyRecord | None:
        """Return the record of a key."""
        return self._records.get(key_id)

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
