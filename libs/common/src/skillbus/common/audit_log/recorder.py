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

from skillbus.common.audit_log.last_work import wait_for_last_work
from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import encode
from skillbus.common.bus.connection import Bus
from skillbus.contracts.audit_log import (
    AuditDoor,
    AuditedAct,
    AuditFact,
    AuditOutcome,
    find_project,
    make_audit_subject,
    name_subjects,
)
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.message import Message
from skillbus.contracts.resources import AUDIT_LOG

ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_RECORD_FOR_S: Final = 5.0
"""Time for which recording is tried."""
_ACK_TIMEOUT_S: Final = 2.0
_RETRY_S: Final = 0.25
_TRACE_ID: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-.{0,64}")
_FAILURES: Final = 500
"""HTTP status from which on an error leaves open whether the act was done."""

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
        self._problem = ""

    async def carry_out(
        self,
        name: str,
        act: AuditedAct,
        request: MessageT,
        handle: Callable[[MessageT], Awaitable[ReplyT]],
        to_wire: Callable[[Exception], RequestError | None] = lambda _: None,
    ) -> ReplyT:
        """Answer a request, and record the outcome before returning or raising what `handle` raised.

        Work that `handle` gave to `finish_before_answer` has ended as well.

        `to_wire` translates the service's own errors into those of the contract.

        Raises:
            RequestError: It was done and could not be recorded, which is `internal`.
        """
        if not act.changes_something(request):
            return await handle(request)
        async with wait_for_last_work():
            return await self._carry_out(name, act, request, handle, to_wire)

    async def _carry_out(
        self,
        name: str,
        act: AuditedAct,
        request: MessageT,
        handle: Callable[[MessageT], Awaitable[ReplyT]],
        to_wire: Callable[[Exception], RequestError | None],
    ) -> ReplyT:
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
            self._problem = f"the last act was not recorded ({error.message.rstrip('.')}): if that stays, restart NATS"
            return False
        self._problem = ""
        return True

    def check_recording(self) -> HealthCheck:
        """Return a check with a warning if the last fact could not be stored.

        The stream cannot be tried: nothing may be written to it but facts, and it cannot be purged.
        """
        return HealthCheck(name="audit_log", ready=True, warning=self._problem)

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
