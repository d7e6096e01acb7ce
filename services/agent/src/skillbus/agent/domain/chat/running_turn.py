"""One turn of this replica: its messages for those who follow it, and its calls that wait for a person."""

import asyncio
import secrets
import time
from array import array
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, groupby
from typing import Final

from pydantic_core import to_json

from skillbus.agent.domain.chat.approval_desk import ApprovalDesk, DeskAnswer, WaitingCall
from skillbus.contracts.agent.approvals import CallApproval, DecideCall
from skillbus.contracts.agent.chat import CalledTool
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.agent.turns import TurnEvent, TurnEventKind

_PAGE_BYTES: Final = 256 * 1024
"""Size from which a page of messages is full, as JSON. With its last message it fits into a message of the bus."""
_PROGRAM_CALLS_KEPT: Final = 1_000
"""Most calls of the programs of one turn that have a message. All messages are kept until minutes after the turn."""


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Span of a turn or of one of its steps, which begins when it is made."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Eight bytes in hex (W3C Trace Context, parent-id)."""
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began_s: float = field(default_factory=time.monotonic)

    def measure_ms(self) -> float:
        """Return the milliseconds since its begin."""
        return round((time.monotonic() - self.began_s) * 1000, 3)


@dataclass(frozen=True, slots=True)
class _JoinedText:
    """Texts that follow one another, in a tenth of the memory that they take apart."""

    first: int
    """Number of the first one."""
    text: str
    ends: "array[int]"
    """End of each one in the text."""

    def cut_text(self, number: int) -> str:
        """Return the text of one message."""
        at = number - self.first
        return self.text[self.ends[at - 1] if at else 0 : self.ends[at]]


@dataclass(slots=True)
class RunningTurn:
    """A turn and its messages. A text stands for a message of the kind `text`."""

    turn_id: str
    project: str
    approval_s: float = 0.0
    """Longest time that it waits for approvals."""
    started_by: str | None = None
    model: str = ""
    """Model that the messages name."""
    messages: list[TurnEvent | str | _JoinedText] = field(default_factory=list)
    """After the end of the turn, texts that follow one another are the same `_JoinedText`."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    span: TurnSpan = field(default_factory=TurnSpan)
    program_calls: int = 0
    """Calls that its programs have made."""
    ended_at: float | None = None
    """Monotonic time."""
    lines: AsyncExitStack = field(default_factory=AsyncExitStack)
    desk: ApprovalDesk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = ApprovalDesk(self.approval_s, self._add_approval)

    @property
    def waited_s(self) -> float:
        """Implement `TurnListener`."""
        return self.desk.waited_s

    async def ask_approval(self, call: WaitingCall) -> CallTool:
        """Implement `TurnListener`."""
        return await self.desk.ask_approval(call)

    def decide(self, decision: DecideCall) -> DeskAnswer:
        """Take a decision about a call that waits."""
        if decision.started_by not in {None, self.started_by}:
            return DeskAnswer(is_foreign=True)
        return DeskAnswer(tool=self.desk.decide(decision))

    def add_text(self, text: str) -> None:
        """Implement `TurnListener`."""
        self.messages.append(text)
        self.wake()

    def add_call(self, kind: TurnEventKind, call: CalledTool) -> None:
        """Implement `TurnListener`."""
        if call.program_call_id is not None:
            self.program_calls += 1
            if self.program_calls > _PROGRAM_CALLS_KEPT:
                return
        self.add_event(kind, call=call)

    def _add_approval(self, kind: TurnEventKind, approval: CallApproval) -> None:
        self.add_event(kind, approval=approval)

    def add_event(self, kind: TurnEventKind, **fields: object) -> None:
        """Add a message that is no text."""
        number = len(self.messages)
        event = TurnEvent.model_validate(
            {
                "turn_id": self.turn_id,
                "number": number,
                "after": number - 1,
                "kind": kind,
                "model": self.model,
                **fields,
            }
        )
        self.messages.append(event)
        self.wake()

    def read_page(self, after: int) -> tuple[TurnEvent, ...]:
        """Return the messages after a number; texts that follow one another as one, with the number of the last."""
        page, text, size = list[TurnEvent](), list[str](), 0
        at = after
        for at in range(after + 1, len(self.messages)):
            message = self.messages[at]
            if isinstance(message, _JoinedText):
                message = message.cut_text(at)
            if isinstance(message, str):
                text.append(message)
                size += len(to_json(message))
            else:
                page += self._join_text(text, at - 1)
                text = []
                page.append(message)
                size += len(to_json(message))
            if size > _PAGE_BYTES:
                break
        return (*page, *self._join_text(text, at))

    async def wait_change(self, after: int, within_s: float) -> None:
        """Wait until there are messages after a number, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while len(self.messages) <= after + 1 and self.ended_at is None:
                    await self.changed.wait()

    def _join_text(self, text: list[str], number: int) -> list[TurnEvent]:
        if not text:
            return []
        first = number - len(text) + 1
        joined = "".join(text)
        kind = TurnEventKind.TEXT
        return [
            TurnEvent(turn_id=self.turn_id, number=number, after=first - 1, kind=kind, model=self.model, text=joined)
        ]

    def join_texts(self) -> None:
        """Keep the texts in less memory, when no more come."""
        for is_text, run in groupby(range(len(self.messages)), lambda at: isinstance(self.messages[at], str)):
            numbers = list(run)
            if is_text:
                pieces = [str(self.messages[at]) for at in numbers]
                joined = _JoinedText(numbers[0], "".join(pieces), array("L", accumulate(map(len, pieces))))
                self.messages[numbers[0] : numbers[-1] + 1] = [joined] * len(numbers)

    def wake(self) -> None:
        """Wake those who wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()
