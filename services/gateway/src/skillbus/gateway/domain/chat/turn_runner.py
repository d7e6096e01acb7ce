"""Turns of chats, from the side of the gateway: run, followed while they last, and cancelled when nobody waits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, TypeAlias

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
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.runs.following import CANCEL_TIMEOUT_S, cancel_work, yield_events

_MARGIN_S: Final = 30.0
"""Time that a turn may take apart from its limit: for its last answer."""
_PAGE_WAIT_S: Final = 10.0

OpenTurnFeed: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[TurnEvent]]]
"""Function that subscribes to the messages of a turn. Raises RequestError if the bus is away."""


class RemoteTurnRunner:
    """Runs turns. If the caller is cancelled, the turn is cancelled too."""

    def __init__(self, caller: BusCaller, open_feed: OpenTurnFeed) -> None:
        self._caller = caller
        self._open_feed = open_feed

    async def run_turn(self, chat: Chat) -> TurnEnded:
        """Run a turn to its end. Raises RequestError if there is no answer."""
        wait_s = max(CHAT.timeout_s, chat.limits.time_s + _MARGIN_S)
        selector = TurnSelector(project=chat.project, turn_id=chat.turn_id or "")

        async def cancel() -> bool:
            return (await self._caller.call(CANCEL_TURN, selector, timeout_s=CANCEL_TIMEOUT_S)).ending

        try:
            return await self._caller.call(CHAT, chat, timeout_s=wait_s)
        except asyncio.CancelledError:
            await cancel_work(selector.turn_id, cancel)
            raise

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


def _is_last(event: TurnEvent) -> bool:
    return event.kind in {TurnEventKind.ENDED, TurnEventKind.FAILED}
