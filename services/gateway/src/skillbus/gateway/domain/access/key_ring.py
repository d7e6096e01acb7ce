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
        """Return the keys that ended before a time, those that were made last first."""
        ended = [record for record in self.records if self._is_ended(record, before)]
        return tuple(sorted(ended, key=lambda record: record.created_at, reverse=True))

    def _is_ended(self, record: ApiKeyRecord, before: datetime) -> bool:
        ends_at = self.trace_lineage(record).ends_at
        return ends_at is not None and ends_at < before
