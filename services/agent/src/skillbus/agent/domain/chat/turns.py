"""The turns of this replica by their ids: run, followed, cancelled, and remembered for ten minutes after the end."""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any, Final, Protocol, TypeAlias

import structlog
from pydantic_core import to_json

from skillbus.agent.domain.chat.engine import ReActEngine, end_turn
from skillbus.agent.domain.chat.ports import FindChatModels, FunctionFinder
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.errors import TurnCancelledError, TurnClashError, TurnUnknownError
from skillbus.contracts.agent.chat import AUTO_MODEL, CalledTool, Chat, TurnEnded
from skillbus.contracts.agent.turns import (
    TURN_BEGUN,
    TURN_ENDED,
    TURN_STEPPED,
    FollowTurn,
    TurnEvent,
    TurnEventKind,
    TurnFact,
    TurnFollowed,
)
from skillbus.contracts.endpoint import Event
from skillbus.contracts.errors import ErrorCode, RequestError

REMEMBERED_S: Final = 600.0
"""Time after its end in which a turn can be followed."""
REMEMBERED_TURNS: Final = 200
_PAGE_BYTES: Final = 256 * 1024
"""Size from which a page of messages is full, as JSON. With its last message it fits into a message of the bus."""

PublishTurnEvent: TypeAlias = Callable[[TurnEvent], Awaitable[None]]
"""Sends a message about a turn to those who follow it now."""
AnnounceTurn: TypeAlias = Callable[[Event[TurnFact], TurnFact], None]
"""Publishes a fact about a turn in the background."""
DescribeError: TypeAlias = Callable[[Exception], RequestError]
"""Returns the error that the caller of a turn gets."""

log = structlog.get_logger(__name__)


class TurnLines(Protocol):
    """Lines to turns of all replicas. Methods raise RequestError if the bus is away."""

    def listen(
        self, turn_id: str, project: str, follow: Callable[[FollowTurn], Awaitable[TurnFollowed]]
    ) -> AbstractAsyncContextManager[asyncio.Event]:
        """Answer requests about a turn while the context is open. Yield an event that is set when it is cancelled."""

    async def cancel(self, turn_id: str, project: str) -> bool:
        """Cancel a turn of a project; return False if no replica has it."""
        ...

    async def follow(self, request: FollowTurn) -> TurnFollowed | None:
        """Ask the replica that has the turn; None if there is none."""
        ...


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
class _Turn:
    """A turn and its messages. A text stands for a message of the kind `text`."""

    turn_id: str
    project: str
    model: str = ""
    """Model that the messages name."""
    messages: list[TurnEvent | str | _JoinedText] = field(default_factory=list)
    """After the end of the turn, texts that follow one another are the same `_JoinedText`."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float | None = None
    """Monotonic time."""
    lines: AsyncExitStack = field(default_factory=AsyncExitStack)

    def add_text(self, text: str) -> None:
        """Implement `TurnListener`."""
        self.messages.append(text)
        self.wake()

    def add_call(self, kind: TurnEventKind, call: CalledTool) -> None:
        """Implement `TurnListener`."""
        self.add_event(kind, call=call)

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


@dataclass(frozen=True, slots=True)
class TurnPorts:
    """Ports of the registry of turns."""

    find_models: FindChatModels
    finder: FunctionFinder
    lines: TurnLines
    publish: PublishTurnEvent
    announce: AnnounceTurn
    describe_error: DescribeError


class TurnRegistry:
    """Runs turns, and answers for those that are under way or ended a short time ago."""

    def __init__(self, engine: ReActEngine, ports: TurnPorts) -> None:
        self._engine = engine
        self._ports = ports
        self._turns: dict[str, _Turn] = {}
        self._stopping = asyncio.Event()

    async def run_turn(self, chat: Chat, turn_id: str) -> TurnEnded:
        """Run a turn to its end.

        Raises:
            TurnClashError: There is a turn with this id.
            TurnCancelledError: The turn was cancelled.
            ModelFailedError, ModelRefusedError, RequestError: There is no model, or no answer.
        """
        await self._forget_turns()
        if turn_id in self._turns:
            raise TurnClashError(f"there is a turn {turn_id}: choose another id, at random")
        turn = self._turns[turn_id] = _Turn(turn_id, chat.project)
        publishing = asyncio.create_task(self._publish(turn)) if chat.stream else None
        try:
            ended = await self._run(turn, chat)
        except Exception as error:
            told = self._ports.describe_error(error)
            turn.add_event(TurnEventKind.FAILED, code=told.code, detail=told.message)
            self._announce_end(chat, turn_id, told.code.value)
            raise
        except asyncio.CancelledError:
            turn.add_event(TurnEventKind.FAILED, code=ErrorCode.CANCELLED, detail="The turn was cancelled.")
            raise
        finally:
            turn.join_texts()
            turn.ended_at = time.monotonic()
            turn.wake()
            if publishing is not None:
                await publishing
        return ended

    async def follow_turn(self, request: FollowTurn) -> TurnFollowed:
        """Return further messages of a turn, of any replica. Raises TurnUnknownError."""
        turn = self._turns.get(request.turn_id)
        if turn is not None and turn.project == request.project:
            return await self._follow(turn, request)
        followed = None if turn is not None else await self._ports.lines.follow(request)
        if followed is None:
            raise TurnUnknownError(f"there is no turn {request.turn_id}, or it ended more than ten minutes ago")
        return followed

    async def cancel_turn(self, turn_id: str, project: str) -> bool:
        """Cancel a turn on whichever replica it runs. Return False if it has ended, or never was."""
        turn = self._turns.get(turn_id)
        if turn is not None and turn.ended_at is not None:
            return False
        return await self._ports.lines.cancel(turn_id, project)

    def end_turns(self) -> None:
        """End all turns with an error that says that this agent stops."""
        self._stopping.set()

    async def close(self) -> None:
        """Forget all turns."""
        for turn in tuple(self._turns.values()):
            await self._forget(turn)

    async def _run(self, turn: _Turn, chat: Chat) -> TurnEnded:
        async def follow(request: FollowTurn) -> TurnFollowed:
            return await self._follow(turn, request)

        cancelled = await turn.lines.enter_async_context(self._ports.lines.listen(turn.turn_id, chat.project, follow))
        turn.add_event(TurnEventKind.BEGUN)
        working = asyncio.create_task(self._take_steps(turn, chat))
        leaving, stopping = asyncio.create_task(cancelled.wait()), asyncio.create_task(self._stopping.wait())
        tasks: tuple[asyncio.Task[Any], ...] = (working, leaving, stopping)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if stopping.done():
                raise RequestError(ErrorCode.UNAVAILABLE, "The agent stops: send the request again.")
            raise TurnCancelledError("the turn was cancelled")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _take_steps(self, turn: _Turn, chat: Chat) -> TurnEnded:
        wanted = None if chat.model == AUTO_MODEL else chat.model
        models, state = await asyncio.gather(
            self._ports.find_models(wanted), self._engine.begin_turn(chat, turn.turn_id)
        )
        turn.model = models[0].model.name if models else ""
        self._announce(TURN_BEGUN, state)
        while state.finish_reason is None:
            before = len(state.steps)
            state = await self._engine.take_step(state, models, turn)
            if len(state.steps) > before:
                turn.model = state.model
                self._announce(TURN_STEPPED, state)
                if state.finish_reason is None:
                    turn.add_event(TurnEventKind.STEP, step=state.steps[-1])
        ended = end_turn(state, self._ports.finder.get_catalogue_size(chat.project))
        turn.add_event(TurnEventKind.ENDED, ended=ended)
        self._announce(TURN_ENDED, state, ended.limit or ended.finish_reason)
        log.info(
            "turn_ended",
            turn_id=turn.turn_id,
            model=ended.model,
            steps=len(ended.steps),
            calls=state.calls,
            limit=ended.limit,
            tokens=ended.usage.total_tokens,
        )
        return ended

    async def _follow(self, turn: _Turn, request: FollowTurn) -> TurnFollowed:
        await turn.wait_change(request.after, request.wait_s)
        page, ended = turn.read_page(request.after), turn.ended_at is not None
        return TurnFollowed(events=page, last=len(turn.messages) - 1, ended=ended)

    async def _publish(self, turn: _Turn) -> None:
        """Send all messages of a turn in their order, until its end."""
        after = -1
        while True:
            await turn.wait_change(after, REMEMBERED_S)
            page = turn.read_page(after)
            for event in page:
                await self._ports.publish(event)
                after = event.number
            if not page and turn.ended_at is not None:
                return

    def _announce(self, event: Event[TurnFact], state: TurnState, outcome: str = "") -> None:
        last = state.steps[-1] if state.steps else None
        fact = TurnFact(
            turn_id=state.turn_id,
            project=state.chat.project,
            model=state.model or state.chat.model,
            step=len(state.steps),
            calls=() if last is None else tuple(call.id for call in last.calls),
            outcome=outcome,
            usage=state.usage,
        )
        self._ports.announce(event, fact)

    def _announce_end(self, chat: Chat, turn_id: str, outcome: str) -> None:
        fact = TurnFact(turn_id=turn_id, project=chat.project, model=chat.model, outcome=outcome)
        self._ports.announce(TURN_ENDED, fact)

    async def _forget_turns(self) -> None:
        """Forget the turns that ended long ago, and the oldest ones if there are too many."""
        ended = [turn for turn in self._turns.values() if turn.ended_at is not None]
        too_many = len(ended) - REMEMBERED_TURNS
        for number, turn in enumerate(ended):
            if number < too_many or time.monotonic() - (turn.ended_at or 0) > REMEMBERED_S:
                await self._forget(turn)

    async def _forget(self, turn: _Turn) -> None:
        self._turns.pop(turn.turn_id, None)
        await turn.lines.aclose()
