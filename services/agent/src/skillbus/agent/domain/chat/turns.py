"""The turns of this replica by their ids: run, followed, cancelled, and remembered for ten minutes after the end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import structlog

from skillbus.agent.domain.chat.approval_desk import DeskAnswer
from skillbus.agent.domain.chat.engine import ReActEngine, end_turn
from skillbus.agent.domain.chat.ports import FindChatModels, FunctionFinder
from skillbus.agent.domain.chat.running_turn import RunningTurn, TurnSpan
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.errors import (
    ForeignTurnError,
    NothingWaitsError,
    TurnCancelledError,
    TurnClashError,
    TurnUnknownError,
)
from skillbus.contracts.agent.approvals import ApprovalMode, CallDecided, DecideCall
from skillbus.contracts.agent.chat import AUTO_MODEL, Chat, TurnEnded
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

    def listen_decisions(
        self, turn_id: str, project: str, decide: Callable[[DecideCall], DeskAnswer]
    ) -> AbstractAsyncContextManager[None]:
        """Take decisions about calls of a turn while the context is open."""

    async def decide(self, request: DecideCall) -> DeskAnswer | None:
        """Pass a decision on to the replica that has the turn; None if there is none."""
        ...


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
        self._turns: dict[str, RunningTurn] = {}
        self._stopping = asyncio.Event()

    async def run_turn(self, chat: Chat, turn_id: str, started_by: str | None = None) -> TurnEnded:
        """Run a turn to its end. `started_by` is the key that asked for it.

        Raises:
            TurnClashError: There is a turn with this id.
            TurnCancelledError: The turn was cancelled.
            ModelFailedError, ModelRefusedError, RequestError: There is no model, or no answer.
        """
        await self._forget_turns()
        if turn_id in self._turns:
            raise TurnClashError(f"there is a turn {turn_id}: choose another id, at random")
        turn = self._turns[turn_id] = RunningTurn(turn_id, chat.project, chat.limits.approval_s, started_by)
        publishing = asyncio.create_task(self._publish(turn)) if chat.stream else None
        try:
            ended = await self._run(turn, chat)
        except Exception as error:
            told = self._ports.describe_error(error)
            turn.add_event(TurnEventKind.FAILED, code=told.code, detail=told.message)
            self._announce_end(chat, turn, told.code.value)
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

    async def decide_call(self, request: DecideCall) -> CallDecided:
        """Approve or deny a call that waits, on whichever replica its turn runs.

        Raises:
            NothingWaitsError: No such call waits.
            ForeignTurnError: The turn was started by somebody else.
        """
        turn = self._turns.get(request.turn_id)
        if turn is not None:
            answer = turn.decide(request) if turn.project == request.project else None
        else:
            answer = await self._ports.lines.decide(request)
        if answer is not None and answer.is_foreign:
            raise ForeignTurnError("the turn was started by another key: that key decides, or an editor of the project")
        if answer is None or answer.tool is None:
            raise NothingWaitsError(
                f"no call {request.call_id} of the turn {request.turn_id} waits: it was decided, or its time is over"
            )
        log.info("call_decided", turn_id=request.turn_id, tool=answer.tool, approved=request.approved)
        return CallDecided(
            turn_id=request.turn_id,
            call_id=request.call_id,
            tool=answer.tool,
            approved=request.approved,
            edited=request.approved and request.arguments is not None,
        )

    def end_turns(self) -> None:
        """End all turns with an error that says that this agent stops."""
        self._stopping.set()

    async def close(self) -> None:
        """Forget all turns."""
        for turn in tuple(self._turns.values()):
            await self._forget(turn)

    async def _run(self, turn: RunningTurn, chat: Chat) -> TurnEnded:
        async def follow(request: FollowTurn) -> TurnFollowed:
            return await self._follow(turn, request)

        cancelled = await turn.lines.enter_async_context(self._ports.lines.listen(turn.turn_id, chat.project, follow))
        if chat.approvals is ApprovalMode.WAIT:
            deciding = self._ports.lines.listen_decisions(turn.turn_id, chat.project, turn.decide)
            await turn.lines.enter_async_context(deciding)
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

    async def _take_steps(self, turn: RunningTurn, chat: Chat) -> TurnEnded:
        wanted = None if chat.model == AUTO_MODEL else chat.model
        models, state = await asyncio.gather(
            self._ports.find_models(wanted), self._engine.begin_turn(chat, turn.turn_id)
        )
        turn.model = models[0].model.name if models else ""
        begun = self._describe(turn, state).model_copy(update={"duration_ms": None})
        self._ports.announce(TURN_BEGUN, begun)
        step = TurnSpan()
        while state.finish_reason is None:
            before = len(state.steps)
            state = await self._engine.take_step(state, models, turn)
            if len(state.steps) > before:
                turn.model = state.model
                self._ports.announce(TURN_STEPPED, self._describe(turn, state, step))
                step = TurnSpan()
                if state.finish_reason is None:
                    turn.add_event(TurnEventKind.STEP, step=state.steps[-1])
        ended = end_turn(state, self._ports.finder.get_catalogue_size(chat.project))
        turn.add_event(TurnEventKind.ENDED, ended=ended)
        outcome = ended.limit or ended.finish_reason
        self._ports.announce(TURN_ENDED, self._describe(turn, state).model_copy(update={"outcome": outcome}))
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

    async def _follow(self, turn: RunningTurn, request: FollowTurn) -> TurnFollowed:
        await turn.wait_change(request.after, request.wait_s)
        page, ended = turn.read_page(request.after), turn.ended_at is not None
        return TurnFollowed(events=page, last=len(turn.messages) - 1, ended=ended)

    async def _publish(self, turn: RunningTurn) -> None:
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

    def _describe(self, turn: RunningTurn, state: TurnState, step: TurnSpan | None = None) -> TurnFact:
        """Return a fact about a turn so far, or about its last step."""
        last, span = state.steps[-1] if state.steps else None, step or turn.span
        return TurnFact(
            turn_id=state.turn_id,
            project=state.chat.project,
            model=state.model or state.chat.model,
            step=len(state.steps),
            calls=() if last is None else tuple(call.id for call in last.calls),
            usage=state.usage,
            span_id=span.id,
            parent_span_id="" if step is None else turn.span.id,
            began_at=span.began_at,
            duration_ms=span.measure_ms(),
        )

    def _announce_end(self, chat: Chat, turn: RunningTurn, outcome: str) -> None:
        fact = TurnFact(
            turn_id=turn.turn_id,
            project=chat.project,
            model=chat.model,
            outcome=outcome,
            span_id=turn.span.id,
            began_at=turn.span.began_at,
            duration_ms=turn.span.measure_ms(),
        )
        self._ports.announce(TURN_ENDED, fact)

    async def _forget_turns(self) -> None:
        """Forget the turns that ended long ago, and the oldest ones if there are too many."""
        ended = [turn for turn in self._turns.values() if turn.ended_at is not None]
        too_many = len(ended) - REMEMBERED_TURNS
        for number, turn in enumerate(ended):
            if number < too_many or time.monotonic() - (turn.ended_at or 0) > REMEMBERED_S:
                await self._forget(turn)

    async def _forget(self, turn: RunningTurn) -> None:
        self._turns.pop(turn.turn_id, None)
        await turn.lines.aclose()
