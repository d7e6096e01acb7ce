"""The audit log: facts about administrative acts, in a stream that only grows (ADR 0028).

The service that carries an act out records it, before the caller gets the answer. So an act is recorded whether it came
over HTTP or over the bus.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar
from uuid import uuid4

import structlog
from nats.errors import Error as NatsError

from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import decode, encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import jetstream_call
from skillbus.common.bus.jetstream_batch import StreamMessage, read_messages
from skillbus.common.paging import measure_json
from skillbus.contracts.audit_log import (
    AuditDoor,
    AuditedAct,
    AuditFact,
    AuditOutcome,
    find_project,
    make_audit_subject,
    name_subjects,
)
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.indexer.audit_log import AuditEntry, AuditLogListed, ListAuditLog
from skillbus.contracts.message import Message
from skillbus.contracts.resources import AUDIT_LOG

ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_RECORD_FOR_S: Final = 5.0
"""Time for which recording is tried."""
_ACK_TIMEOUT_S: Final = 2.0
_RETRY_S: Final = 0.25
_PORTION: Final = 256
"""Stream positions that are read together."""
_SCANNED: Final = 4_096
"""Stream positions that are read for one page."""
_PAGE_BYTES: Final = 512 * 1024
_TRACE_ID: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-.{0,64}")
_FAILURES: Final = 500
"""Status from which an error says nothing about what was done."""

log = structlog.get_logger(__name__)


class AuditStore(Protocol):
    """Place where facts are kept."""

    async def append_fact(self, fact: AuditFact) -> None:
        """Store a fact for good. Raises RequestError if that fails."""
        ...


class AuditStream:
    """Implements `AuditStore` in the stream `SKILLBUS_AUDIT`."""

    def __init__(self, bus: Bus, try_for_s: float = _RECORD_FOR_S) -> None:
        self._jetstream = bus.jetstream
        self._try_for_s = try_for_s

    async def append_fact(self, fact: AuditFact) -> None:
        subject, body = make_audit_subject(fact), encode(fact)
        headers = {h.MESSAGE_ID: uuid4().hex}  # the same for all attempts: the fact is stored once
        give_up_at = time.monotonic() + self._try_for_s
        while True:
            try:
                await self._jetstream.publish(
                    subject, body, timeout=_ACK_TIMEOUT_S, stream=AUDIT_LOG.name, headers=headers
                )
            except (NatsError, TimeoutError) as error:
                if time.monotonic() >= give_up_at:
                    raise RequestError(ErrorCode.UNAVAILABLE, f"The audit log is not available: {error!r}") from error
                await asyncio.sleep(_RETRY_S)
            else:
                return


class ActRecorder:
    """Records the administrative acts that one service carries out."""

    def __init__(self, store: AuditStore, service: str) -> None:
        self._store = store
        self._service = service

    async def carry_out(
        self,
        name: str,
        act: AuditedAct,
        request: MessageT,
        handle: Callable[[MessageT], Awaitable[ReplyT]],
        to_wire: Callable[[Exception], RequestError | None] = lambda _: None,
    ) -> ReplyT:
        """Answer a request, and record the outcome before returning or raising what `handle` raised.

        `to_wire` translates the service's own errors into those of the contract.

        Raises:
            RequestError: It was done and could not be recorded, which is `internal`.
        """
        if not act.changes_something(request):
            return await handle(request)
        try:
            reply = await handle(request)
        except Exception as error:
            refusal = error if isinstance(error, RequestError) else to_wire(error)
            code = ErrorCode.INTERNAL if refusal is None else refusal.code
            await self.record_refusal(self._describe(name, act, request, None), code)
            raise
        if act.list_subjects(request, reply) is None or await self.record_fact(
            self._describe(name, act, request, reply)
        ):
            return reply
        raise RequestError(
            ErrorCode.INTERNAL,
            f"{name} was done, but not recorded in the audit log. Do not repeat it: see the log of {self._service}.",
            details={"done": True},
        )

    async def record_refusal(self, fact: AuditFact, code: ErrorCode) -> None:
        """Record that an act was refused or failed. A fact that cannot be stored is only logged: nothing was done."""
        outcome = AuditOutcome.FAILED if ERROR_CLASSES[code].status >= _FAILURES else AuditOutcome.REFUSED
        await self.record_fact(fact.model_copy(update={"outcome": outcome, "code": code}))

    async def record_fact(self, fact: AuditFact) -> bool:
        """Record a fact. Return False, after logging it as an error, if it cannot be stored."""
        try:
            await self._store.append_fact(fact)
        except RequestError as error:
            log.exception("audit_fact_not_recorded", error=error.message, fact=fact.model_dump(mode="json"))
            return False
        return True

    def make_fact(self, name: str, project: str | None, origin: h.Origin) -> AuditFact:
        """Return a fact about an act that is done."""
        trace = _TRACE_ID.fullmatch(h.traceparent.get() or "")
        return AuditFact(
            at=datetime.now(UTC),
            act=name,
            outcome=AuditOutcome.DONE,
            project=project,
            service=self._service,
            door=origin.door,
            actor=origin.actor,
            address=origin.address,
            account=origin.account,
            trace_id=trace[1] if trace else None,
        )

    def _describe(self, name: str, act: AuditedAct, request: Message, reply: Message | None) -> AuditFact:
        subjects = act.list_subjects(request, reply) or []
        fact = self.make_fact(name, find_project(request, reply), h.origin.get() or h.Origin(AuditDoor.BUS))
        return fact.model_copy(
            update={
                "subjects": name_subjects(subjects),
                "count": len(subjects),
                "details": act.list_details(request, reply),
            }
        )


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
    """Return a fact with the service that its subject names, as which alone a service may publish; None for junk."""
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
