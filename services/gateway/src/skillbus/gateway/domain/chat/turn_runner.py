"""Turns of chats, from the side of the gateway: run, followed while they last, and cancelled when nobody waits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, TypeAlias

from skillbus.contracts.agent.approvals import DECIDE_CALL, ApprovalMode, DecideCall
from skillbus.contracts.agent.chat import Chat, TurnEnded
from skillbus.contracts.agent.turns import (
    CANCEL_TURN,
    CHAT,
    FOLLOW_TURN,
    FollowTurn,
    TurnCancelled,
    TurnEvent,
    TurnEventKind,
    TurnSelector,
)
from skillbus.contracts.chat_http import CallDecision, DecisionsTaken, DecisionTaken
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.runs.following import CANCEL_TIMEOUT_S, cancel_work, yield_events

_MARGIN_S: Final = 30.0
"""Time that a turn may take apart from its limit: for its last answer."""
_PAGE_WAIT_S: Final = 10.0
_LOOKS: Final = 2
_AFTER_ALL: Final = 2**31
"""Number after that of any message."""
_NOBODY: Final = frozenset({ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED})
"""Errors of following a turn that nobody has, or that cannot be asked for."""

OpenTurnFeed: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[TurnEvent]]]
"""Function that subscribes to the messages of a turn. Raises RequestError if the bus is away."""


class RemoteTurnRunner:
    """Runs turns. If the caller is cancelled, the turn is cancelled too."""

    def __init__(self, caller: BusCaller, open_feed: OpenTurnFeed, look_every_s: float = 15.0) -> None:
        """Look for the agent of a turn every `look_every_s` seconds. Twice without it, and the turn is lost."""
        self._caller = caller
        self._open_feed = open_feed
        self._look_every_s = look_every_s

    async def run_turn(self, chat: Chat) -> TurnEnded:
        """Run a turn to its end, also if the bus is away for a moment meanwhile.

        Raises:
            RequestError: There is no answer, or the agent that ran the turn is gone.
        """
        wait_s = max(CHAT.timeout_s, chat.limits.time_s + _MARGIN_S)
        if chat.approvals is ApprovalMode.WAIT:
            wait_s += chat.limits.approval_s
        selector = TurnSelector(project=chat.project, turn_id=chat.turn_id or "")

        async def cancel() -> bool:
            return (await self._caller.call(CANCEL_TURN, selector, timeout_s=CANCEL_TIMEOUT_S)).ending

        asking = asyncio.create_task(self._caller.call(CHAT, chat, timeout_s=wait_s))
        try:
            return await self._await_reply(asking, selector)
        except RequestError as error:
            if error.code is not ErrorCode.UNAVAILABLE:
                raise
            return await self._await_end(selector, error)
        except asyncio.CancelledError:
            await cancel_work(selector.turn_id, cancel)
            raise
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    async def _await_reply(self, asking: asyncio.Task[TurnEnded], selector: TurnSelector) -> TurnEnded:
        """Return the reply of the agent, while there is one that has the turn."""
        missing = 0
        while missing < _LOOKS:
            await asyncio.wait([asking], timeout=self._look_every_s)
            if asking.done():
                return asking.result()
            missing = 0 if await self._has_agent(selector) else missing + 1
        raise RequestError(ErrorCode.UNAVAILABLE, "The agent that ran this chat is gone: send the chat again.")

    async def _has_agent(self, selector: TurnSelector) -> bool:
        request = FollowTurn(project=selector.project, turn_id=selector.turn_id, after=_AFTER_ALL, wait_s=0)
        try:
            await self._caller.call(FOLLOW_TURN, request, timeout_s=CANCEL_TIMEOUT_S)
        except RequestError as error:
            return error.code not in {ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE}
        return True

    async def _await_end(self, selector: TurnSelector, error: RequestError) -> TurnEnded:
        """Return the end of a turn whose reply is lost, as after a reconnect. Raises `error` if nobody has the turn."""
        try:
            async for event in self.follow_turn(selector):
                if event.ended is not None:
                    return event.ended
        except RequestError as other:
            if other.code not in _NOBODY:
                raise
        raise error

    async def stream_turn(self, chat: Chat) -> AsyncGenerator[TurnEvent]:
        """Run a turn, and yield its messages as they come; the last one is `ended`.

        Closing the generator early cancels the turn.

        Raises:
            RequestError: The turn was refused, or failed.
        """
        selector, last = TurnSelector(project=chat.project, turn_id=chat.turn_id or ""), -1
        has_failed = False
        async with self._open_feed(selector.turn_id) as events:
            running = asyncio.create_task(self.run_turn(chat.model_copy(update={"stream": True})))
            try:
                async with aclosing(yield_events(events, running, _is_last)) as followed:
                    async for event in followed:
                        has_failed = event.kind is TurnEventKind.FAILED
                        if has_failed or event.after > last:
                            break
                        yield event
                        last = event.number
                        if event.kind is TurnEventKind.ENDED:
                            await running
                            return
                if has_failed or running.done():
                    await running  # raises the error of a turn that failed or never began
                async for event in self.follow_turn(selector, last):  # messages of the feed were lost
                    yield event
                await running
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def follow_turn(self, selector: TurnSelector, after: int = -1) -> AsyncGenerator[TurnEvent]:
        """Yield the messages of a turn after a number, to its end. The turn goes on without its followers.

        Raises:
            RequestError: `not_found`, or the error of the turn.
        """
        while True:
            request = FollowTurn(project=selector.project, turn_id=selector.turn_id, after=after, wait_s=_PAGE_WAIT_S)
            page = await self._caller.call(FOLLOW_TURN, request, timeout_s=_PAGE_WAIT_S + CANCEL_TIMEOUT_S)
            for event in page.events:
                if event.kind is TurnEventKind.FAILED:
                    raise RequestError(event.code or ErrorCode.INTERNAL, event.detail)
                yield event
                after = event.number
            if page.ended and after >= page.last:
                return

    async def cancel_turn(self, selector: TurnSelector) -> TurnCancelled:
        """Cancel a turn on whichever replica it runs. Raises RequestError."""
        return await self._caller.call(CANCEL_TURN, selector)

    async def decide_calls(
        self, selector: TurnSelector, decisions: Sequence[CallDecision], started_by: str | None
    ) -> DecisionsTaken:
        """Approve or deny calls of a turn, which `started_by` started; anybody, if it is None.

        Raises:
            RequestError: `not_found` if none of the calls waits, `forbidden` if somebody else started the turn.
        """
        taken, refusal = list[DecisionTaken](), None
        for decision in decisions:
            request = DecideCall(**dict(selector), **dict(decision), started_by=started_by)
            try:
                decided = await self._caller.call(DECIDE_CALL, request)
            except RequestError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                refusal = error
                taken.append(DecisionTaken(call_id=decision.call_id, taken=False))
            else:
                taken.append(DecisionTaken(call_id=decision.call_id, taken=True, tool=decided.tool))
        if refusal is not None and not any(one.taken for one in taken):
            raise refusal
        return DecisionsTaken(turn_id=selector.turn_id, decisions=tuple(taken))


def _is_last(event: TurnEvent) -> bool:
    return event.kind in {TurnEventKind.ENDED, TurnEventKind.FAILED}
