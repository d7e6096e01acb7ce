"""The calls of one turn that wait for a person, and the time that the turn has waited."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.errors import CallDeniedError
from skillbus.contracts.agent.approvals import ApprovalOutcome, CallApproval, DecideCall
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.agent.turns import TurnEventKind
from skillbus.contracts.message import Message

ARGUMENTS_BYTES: Final = 64 * 1024
"""Largest arguments, as JSON, that a person is shown. A call with larger ones is not made: nobody could judge it."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """Call that needs an approval."""

    request: CallTool
    call_id: str
    reason: str
    program_call_id: str | None = None


class ApprovalAsker(Protocol):
    """A person who approves calls or denies them."""

    @property
    def waited_s(self) -> float:
        """Seconds that the turn has waited. Calls that wait at the same time count once."""

    async def ask_approval(self, call: WaitingCall) -> CallTool:
        """Return the call as it was approved. Raises CallDeniedError."""
        ...


class DeskAnswer(Message):
    """Fate of a decision."""

    tool: str | None = None
    """Id of the tool; None if no such call waits."""
    is_foreign: bool = False
    """True if somebody else started the turn."""


@dataclass(slots=True)
class _Waiting:
    approval: CallApproval
    decided: asyncio.Future[DecideCall]


class ApprovalDesk:
    """Implements `ApprovalAsker` for one turn. It keeps the decisions that others take."""

    def __init__(self, limit_s: float, tell: Callable[[TurnEventKind, CallApproval], None]) -> None:
        """`limit_s` is the longest time that the turn waits in all. `tell` tells the followers of the turn."""
        self._limit_s = limit_s
        self._tell = tell
        self._waiting: dict[str, _Waiting] = {}
        self._ended_s = 0.0
        self._since = 0.0

    @property
    def waited_s(self) -> float:
        return self._ended_s + (time.monotonic() - self._since if self._waiting else 0.0)

    async def ask_approval(self, call: WaitingCall) -> CallTool:
        request, left_s = call.request, self._limit_s - self.waited_s
        if len(to_json(request.arguments)) > ARGUMENTS_BYTES:
            raise CallDeniedError(f"its arguments are too large to be shown to a person: over {ARGUMENTS_BYTES} bytes")
        if left_s <= 0:
            raise CallDeniedError("it needs an approval, and the time for approvals of this turn is over")
        approval = CallApproval(
            call_id=call.call_id,
            id=request.id,
            action=request.action,
            arguments=request.arguments,
            reason=call.reason,
            expires_at=datetime.now(UTC) + timedelta(seconds=left_s),
            program_call_id=call.program_call_id,
        )
        decision = await self._wait(_Waiting(approval, asyncio.get_running_loop().create_future()), left_s)
        if decision is None:
            raise CallDeniedError("nobody approved it in time")
        if not decision.approved:
            raise CallDeniedError(f"a person denied it{f': {decision.reason}' if decision.reason else ''}")
        return request if decision.arguments is None else request.model_copy(update={"arguments": decision.arguments})

    def decide(self, decision: DecideCall) -> str | None:
        """Take a decision. Return the id of the tool, or None if no such call waits."""
        waiting = self._waiting.get(decision.call_id)
        if waiting is None or waiting.decided.done():
            return None
        waiting.decided.set_result(decision)
        return waiting.approval.id

    async def _wait(self, waiting: _Waiting, left_s: float) -> DecideCall | None:
        """Return the decision, or None if there is none in time."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting[waiting.approval.call_id] = waiting
        self._tell(TurnEventKind.APPROVAL_REQUIRED, waiting.approval)
        outcome = ApprovalOutcome.WITHDRAWN
        try:
            # Not `asyncio.timeout`: it would drop a decision that was taken in the instant in which the time is over.
            await asyncio.wait([waiting.decided], timeout=left_s)
            if not waiting.decided.done():
                outcome = ApprovalOutcome.EXPIRED
                return None
            decision = waiting.decided.result()
            outcome = ApprovalOutcome.APPROVED if decision.approved else ApprovalOutcome.DENIED
            return decision
        finally:
            if len(self._waiting) == 1:
                self._ended_s = self.waited_s
            del self._waiting[waiting.approval.call_id]
            self._tell(TurnEventKind.APPROVAL_DECIDED, waiting.approval.model_copy(update={"outcome": outcome}))


def list_edits(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> str:
    """Return the note for the model about changed arguments; empty if none was changed."""
    return "" if before == after else f"A person changed the arguments before the call: {to_json(after).decode()}"
