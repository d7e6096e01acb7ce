"""Turns of chats, from the side of the gateway: run, followed while they last, and cancelled when nobody waits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

import structlog

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

_MARGIN_S: Final = 30.0
"""Time that a turn may take apart from its limit: for its last answer."""
_CANCEL_ATTEMPTS: Final = 5
_CANCEL_PAUSE_S: Final = 0.1
_LAST_EVENTS_S: Final = 2.0
"""Time in which the last messages come after the reply, if none is lost."""
_PAGE_WAIT_S: Final = 10.0
LAST_KINDS: Final = frozenset({TurnEventKind.ENDED, TurnEventKind.FAILED})

OpenTurnFeed: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[TurnEvent]]]
"""Function that subscribes to the messages of a turn. Raises RequestError if the bus is away."""

log = structlog.get_logger(__name__)


class RemoteTurnRunner:
    """Runs turns. If the caller is cancelled, the turn is cancelled too."""

    def __init__(self, caller: BusCaller, open_feed: OpenTurnFeed) -> None:
        self._caller = caller
        self._open_feed = open_feed

    async def run_turn(self, chat: Chat) -> TurnEnded:
        """Run a turn to its end. Raises RequestError if there is no answer."""
        wait_s = max(CHAT.timeout_s, chat.limits.time_s + _MARGIN_S)
        try:
            return await self._caller.call(CHAT, chat, timeout_s=wait_s)
        except asyncio.CancelledError:
            await self._cancel(TurnSelector(project=chat.project, turn_id=chat.turn_id or ""))
            raise

    async def stream_turn(self, chat: Chat) -> AsyncGenerator[TurnEvent]:
        """Run a turn, and yield its messages as they come; the last one is `ended`.

        Closing the generator early cancels the turn.

        Raises:
            RequestError: The turn was refused, or failed.
        """
        selector = TurnSelector(project=chat.project, turn_id=chat.turn_id or "")
        async with self._open_feed(selector.turn_id) as events:
            running = asyncio.create_task(self.run_turn(chat.model_copy(update={"stream": True})))
            try:
                last = -1
                async for event in _follow_feed(events, running):
                    if event.number <= last:
                        continue
                    missed = await self._read_page(selector, last, 0) if event.after > last else ()
                    for one in (*(it for it in missed if it.number < event.number), event):
                        yield raise_failure(one)
                    last = event.number
                    if event.kind in LAST_KINDS:
                        return
                await running  # raises the error of a turn without messages
                async for event in self.follow_turn(selector, last):  # the last messages were lost
                    yield event
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def follow_turn(self, selector: TurnSelector, after: int = -1) -> AsyncGenerator[TurnEvent]:
        """Yield the messages of a turn after a number, to its end. The turn goes on without its followers.

        Raises:
            RequestError: `not_found`, or the error of the turn.
        """
        while True:
            for event in await self._read_page(selector, after, _PAGE_WAIT_S):
                yield raise_failure(event)
                after = event.number
                if event.kind in LAST_KINDS:
                    return

    async def cancel_turn(self, selector: TurnSelector) -> TurnCancelled:
        """Cancel a turn on whichever replica it runs. Raises RequestError."""
        return await self._caller.call(CANCEL_TURN, selector)

    async def _read_page(self, selector: TurnSelector, after: int, wait_s: float) -> tuple[TurnEvent, ...]:
        request = FollowTurn(project=selector.project, turn_id=selector.turn_id, after=after, wait_s=wait_s)
        return (await self._caller.call(FOLLOW_TURN, request)).events

    async def _cancel(self, selector: TurnSelector) -> None:
        """Cancel a turn that nobody waits for. The attempts are repeated, because no agent may have it yet."""
        for _ in range(_CANCEL_ATTEMPTS):
            try:
                cancelled = await self._caller.call(CANCEL_TURN, selector)
            except RequestError as error:
                # The turn ends at its limit anyway, and its caller is gone.
                log.warning("turn_not_cancelled", turn_id=selector.turn_id, code=error.code)
                return
            if cancelled.ending:
                return
            await asyncio.sleep(_CANCEL_PAUSE_S)


def raise_failure(event: TurnEvent) -> TurnEvent:
    """Return the message. Raises RequestError if it says that the turn failed."""
    if event.kind is TurnEventKind.FAILED:
        raise RequestError(event.code or ErrorCode.INTERNAL, event.detail)
    return event


async def _follow_feed(events: AsyncIterator[TurnEvent], running: asyncio.Task[TurnEnded]) -> AsyncGenerator[TurnEvent]:
    """Yield the messages of a feed until the turn has ended and no more come."""
    getting: asyncio.Future[TurnEvent | None] | None = None
    try:
        while True:
            getting = getting or asyncio.ensure_future(anext(events, None))
            if running.done():
                if running.cancelled() or running.exception() is not None:
                    await asyncio.wait({getting}, timeout=0)
                else:
                    await asyncio.wait({getting}, timeout=_LAST_EVENTS_S)
                if not getting.done():
                    return
            else:
                waited: set[asyncio.Future[Any]] = {getting, running}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                event, getting = getting.result(), None
                if event is None:  # the connection is closed for good
                    return
                yield event
    finally:
        if getting is not None:
            getting.cancel()
            await asyncio.wait({getting})
