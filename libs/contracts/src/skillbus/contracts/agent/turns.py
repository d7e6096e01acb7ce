"""Requests about turns of chats, and the messages, events and signals about them."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from skillbus.contracts.agent import SERVICE
from skillbus.contracts.agent.approvals import CallApproval
from skillbus.contracts.agent.chat import CalledTool, Chat, TokenUsage, TurnEnded, TurnId, TurnStep
from skillbus.contracts.endpoint import Endpoint, Event, Feed
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import Message, Project, ProjectMessage


class TurnEventKind(StrEnum):
    """Kind of a message about a turn."""

    BEGUN = "begun"
    TEXT = "text"
    """More text of the answer."""
    CALLING = "calling"
    """A tool of skillbus is being called."""
    CALLED = "called"
    """The call is done. A call of a program has only this message."""
    APPROVAL_REQUIRED = "approval_required"
    """A call waits until a person approves or denies it."""
    APPROVAL_DECIDED = "approval_decided"
    """The wait is over."""
    STEP = "step"
    """A step is done, and another one follows."""
    ENDED = "ended"
    FAILED = "failed"


class TurnEvent(Message):
    """Message about a turn that is going on."""

    turn_id: TurnId
    number: int
    """Numbers rise. A text can stand for several messages, and then has the number of the last one."""
    after: int
    """Number of the message before it. Whoever has not got that one can ask for it with `follow_turn`."""
    kind: TurnEventKind
    model: str = ""
    """Model that is asked, and after the first step the one that answered the last step. Empty until it is known."""
    text: str = ""
    """Only for `text`."""
    call: CalledTool | None = None
    """Only for `calling` and `called`."""
    approval: CallApproval | None = None
    """Only for `approval_required` and `approval_decided`."""
    step: TurnStep | None = None
    """Only for `step`."""
    ended: TurnEnded | None = None
    """Only for `ended`."""
    code: ErrorCode | None = None
    """Only for `failed`."""
    detail: str = ""
    """Only for `failed`."""


class TurnSelector(ProjectMessage):
    """Id of the wanted turn."""

    turn_id: TurnId


class FollowTurn(TurnSelector):
    """Wanted part of a turn's messages."""

    after: int = Field(default=-1, ge=-1)
    """Number of the last known message."""
    wait_s: float = Field(default=20.0, ge=0, le=60)
    """Time to wait for a further message, in seconds."""


class TurnFollowed(Message):
    """Further messages of a turn."""

    events: tuple[TurnEvent, ...]
    """At most about 512 kB. Empty if there was none in time."""
    last: int = -1
    """Number of the last message that there is. Further ones come in the next page."""
    ended: bool = False
    """True if no message follows the last one."""


class TurnCancelled(Message):
    """Result of a cancellation."""

    turn_id: TurnId
    ending: bool
    """True if the turn is being ended; its caller gets an error. False if none is under way, or not yet."""


class TurnFact(Message):
    """Fact about a turn."""

    turn_id: TurnId
    project: Project
    model: str
    step: int = 0
    """Number of steps that are done."""
    calls: tuple[str, ...] = ()
    """Ids of the tools that the step called."""
    outcome: str = ""
    """Reason of the end, or code of the error. Only for the end."""
    usage: TokenUsage = TokenUsage()
    span_id: str = ""
    """Span that the fact is about, of the turn or of the step: an id as in W3C Trace Context. The trace is that of the
    header `traceparent`."""
    parent_span_id: str = ""
    """Span of the turn. Only for a step."""
    began_at: datetime | None = None
    """Begin of the span."""
    duration_ms: float | None = None
    """Duration of the span. Absent for the begin of a turn."""


CHAT: Final = Endpoint(
    service=SERVICE,
    name="chat",
    request=Chat,
    reply=TurnEnded,
    summary="Answer a chat with a model that finds and calls tools by itself.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.MODEL_UNAVAILABLE, ErrorCode.CANCELLED),
    idempotent=False,
    asks_who=True,
    timeout_s=330.0,
    example={"messages": [{"role": "user", "content": "What is 17 * 23?"}]},
)
FOLLOW_TURN: Final = Endpoint(
    service=SERVICE,
    name="follow_turn",
    request=FollowTurn,
    reply=TurnFollowed,
    summary="Return the messages of a turn, also of one that ended at most ten minutes ago.",
    raises=(ErrorCode.NOT_FOUND,),
    timeout_s=75.0,
    example={"turn_id": "0" * 32},
)
CANCEL_TURN: Final = Endpoint(
    service=SERVICE,
    name="cancel_turn",
    request=TurnSelector,
    reply=TurnCancelled,
    summary="Cancel a turn, on whichever replica it is under way, with its call of the model and its tools.",
    example={"turn_id": "0" * 32},
)
CANCEL_TURN_SIGNALS: Final = "skillbus.ctl.turn.cancel.*"
"""Subjects on which replicas of the agent tell each other to end a turn; the last token is the turn's id."""
FOLLOW_TURN_SIGNALS: Final = "skillbus.ctl.turn.follow.*"
"""Subjects on which a replica of the agent asks the one that has a turn for its messages."""
TURN_ADVANCED: Final = Feed(
    service=SERVICE,
    entity="turn",
    fact="advanced",
    body=TurnEvent,
    summary="Messages about a turn while it lasts: text of the answer, calls of tools, and the end. "
    "Published for turns that were requested with `stream`.",
)
TURN_BEGUN: Final = Event(SERVICE, "turn", "begun", TurnFact, "A turn of a chat began.")
TURN_STEPPED: Final = Event(SERVICE, "turn", "stepped", TurnFact, "A step of a turn is done.")
TURN_ENDED: Final = Event(SERVICE, "turn", "ended", TurnFact, "A turn ended, or failed.")
