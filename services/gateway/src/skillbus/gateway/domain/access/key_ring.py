"""All API keys in memory."""

from datetime import datetime

from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.gateway.domain.access.key_lineage import KeyLineage, trace_lineage
from skillbus.gateway.domain.access.record_ring import RecordRing


class KeyRing(RecordRing[ApiKeyRecord]):
    """API keys by id."""

    def trace_lineage(self, record: ApiKeyRecord) -> KeyLineage:
        """Return the ends of a key and of its makers."""
        return trace_lineage(record, self.find_record)

    def list_ended(self, before: datetime) -> tuple[ApiKeyRecord, ...]:
        """Return the keys that ended before a time, each before the key that made it."""
        traced = [(self.trace_lineage(record), record) for record in self.records]
        ended = [(line, record) for line, record in traced if line.ends_at is not None and line.ends_at < before]
        return tuple(record for _, record in sorted(ended, key=lambda it: it[0].length, reverse=True))
