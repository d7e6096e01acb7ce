"""Approvals: calls of a turn that wait until a person approves or denies them."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.tools import ToolId
from skillbus.contracts.message import Message, ProjectMessage
from skillbus.contracts.sandbox.skill_runs import RunId

APPROVAL_S_MAX: Final = 3_600.0


class ApprovalMode(StrEnum):
    """Conduct of a turn before it calls a tool that needs an approval."""

    WAIT = "wait"
    """Wait for a person, who is told by the message `approval_required` of the turn."""
    REFUSE = "refuse"
    """Leave the tool uncalled, and tell the model why."""


class ApprovalOutcome(StrEnum):
    """End of the wait for an approval."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    """Nobody answered in time. The call is not made."""
    WITHDRAWN = "withdrawn"
    """The program that wanted to make the call ended."""


class CallApproval(Message):
    """Call of a tool that needs an approval."""

    call_id: str
    """Id by which the call is approved or denied."""
    id: str
    """Id of the tool."""
    action: str | None = None
    """Action of a skill."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """All arguments."""
    reason: str
    """Why the call needs an approval."""
    expires_at: datetime
    """Time from which the call counts as denied."""
    program_call_id: str | None = None
    """Call of `run_code` whose program makes this call. Absent for a call that the model makes itself."""
    outcome: ApprovalOutcome | None = None
    """Absent while the call waits."""


class DecideCall(ProjectMessage):
    """Decision about a call that waits."""

    turn_id: RunId
    call_id: str = Field(min_length=1, max_length=200)
    approved: bool
    reason: str = Field(default="", max_length=500)
    """Reason of a denial. The model is told."""
    arguments: dict[str, JsonValue] | None = None
    """Arguments to call the tool with instead of the model's. The model is told that they were changed."""
    started_by: str | None = Field(default=None, max_length=100)
    """Decide only if the turn was started by this key, else the request is forbidden. The gateway sets it for keys that
    may not decide about the turns of others."""


class CallDecided(Message):
    """Decision that was taken."""

    turn_id: RunId
    call_id: str
    tool: ToolId
    approved: bool
    edited: bool = False
    """True if the arguments were changed."""


DECIDE_CALL: Final = Endpoint(
    service=SERVICE,
    name="decide_call",
    request=DecideCall,
    reply=CallDecided,
    summary="Approve or deny a call of a turn that waits for it, on whichever replica the turn is under way.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN),
    idempotent=False,
    example={"turn_id": "0" * 32, "call_id": "call_1", "approved": True},
    act=AuditedAct("call_id", details=("turn_id", "tool", "approved", "edited")),
)
DECIDE_CALL_SIGNALS: Final = "skillbus.ctl.turn.decide.*"
"""Subjects on which a replica of the agent passes a decision on to the one that has the turn."""
