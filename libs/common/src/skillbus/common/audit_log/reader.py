"""Reads the audit log in pages, newest fact first."""

from typing import Final

import structlog

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.common.bus.jetstream_batch import StreamMessage, read_messages
from skillbus.common.paging import measure_json
from skillbus.contracts.audit_log import AuditFact
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.audit_log import AuditEntry, AuditLogListed, ListAuditLog
from skillbus.contracts.resources import AUDIT_LOG

_PORTION: Final = 256
"""Stream positions that are read together."""
_SCANNED: Final = 4_096
"""Stream positions that are read for one page."""
_PAGE_BYTES: Final = 512 * 1024

log = structlog.get_logger(__name__)


class AuditLogReader:
    """Reads the audit log. A page is made from at most `scanned` positions of the stream."""

    def __init__(self, bus: Bus, scanned: int = _SCANNED) -> None:
        self._client = bus.client
        self._jetstream = bus.jetstream
        self._api = bus.jetstream_api
        self._scanned = scanned

    async def list_page(self, request: ListAuditLog) -> AuditLogListed:
        """Return a page, newest fact first. It may be short although more follow, because a scan is bounded."""
        found: list[AuditEntry] = []
        left_bytes = _PAGE_BYTES
        async with jetstream_call("read the audit log"):
            state = (await self._jetstream.stream_info(AUDIT_LOG.name)).state
            end = min(request.before or state.last_seq + 1, state.last_seq + 1)
            first = max(state.first_seq, 1)  # 0 in a stream that never held a message
            stop = max(first, end - self._scanned)
            while end > stop:
                begin = max(stop, end - _PORTION)
                for message in await read_messages(
                    self._client, AUDIT_LOG.name, range(end - 1, begin - 1, -1), self._api
                ):
                    entry = None if message is None else _parse_entry(message)
                    if entry is None or not _fits(entry, request):
                        continue
                    left_bytes -= measure_json(entry)
                    if len(found) == request.limit or (found and left_bytes < 0):
                        return AuditLogListed(facts=tuple(found), next=entry.sequence + 1)
                    found.append(entry)
                end = begin
        return AuditLogListed(facts=tuple(found), next=stop if stop > first else None)


def _parse_entry(message: StreamMessage) -> AuditEntry | None:
    """Return a fact with the service that its subject names, or None for something else.

    A service may publish below its own name only, so the subject is not a claim.
    """
    try:
        fact = decode(AuditFact, message.data)
    except RequestError:
        log.warning("audit_fact_unreadable", sequence=message.sequence, subject=message.subject)
        return None
    return AuditEntry(**{**dict(fact), "service": message.subject.split(".")[2], "sequence": message.sequence})


def _fits(fact: AuditFact, request: ListAuditLog) -> bool:
    return (
        request.project in {None, fact.project}
        and request.act in {None, fact.act}
        and request.actor in {None, fact.actor}
        and (request.subject is None or request.subject in fact.subjects)
    )
