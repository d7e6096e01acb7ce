"""Runs and calls that are followed while they last, and cancelled when nobody waits for them any more."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import RequestError
from skillbus.contracts.sandbox.run_history import RunEvent, RunEventKind
from skillbus.gateway.domain.ports import BusCaller, OpenRunFeed, ReplyT, RequestT

CANCEL_TIMEOUT_S: Final = 3.0
"""Time that a service has to cancel."""
_MARGIN_S: Final = 15.0
"""Time that work may take apart from its own limit: waiting for a slot, unpacking, fetching files."""
_LAST_EVENTS_S: Final = 2.0
"""Longest wait for the remaining events after the reply. They were sent before it, on the same connection."""
_CANCEL_ATTEMPTS: Final = 5
_CANCEL_PAUSE_S: Final = 0.1

EventT = TypeVar("EventT")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FollowedWork(Generic[RequestT, ReplyT]):
    """Run of a skill or call of a tool."""

    endpoint: Endpoint[RequestT, ReplyT]
    request: RequestT
    run_id: str
    timeout_s: float | None
    """Limit that the request sets."""
    cancel: Callable[[], Awaitable[bool]]
    """Function that cancels it and returns True, or False if no service has it yet. Raises RequestError."""


@dataclass(frozen=True, slots=True)
class WorkFollower:
    """Sends requests for work."""

    caller: BusCaller
    open_feed: OpenRunFeed

    async def await_reply(self, work: FollowedWork[RequestT, ReplyT]) -> ReplyT:
        """Do the work and return the reply. If the caller is cancelled, the work is cancelled too.

        Raises:
            RequestError: The work was not done, or its result is not known.
        """
        wait_s = max(work.endpoint.timeout_s, (work.timeout_s or 0) + _MARGIN_S)
        try:
            return await self.caller.call(work.endpoint, work.request, timeout_s=wait_s)
        except asyncio.CancelledError:
            await cancel_work(work.run_id, work.cancel)
            raise

    async def follow_work(self, work: FollowedWork[RequestT, ReplyT]) -> AsyncGenerator[RunEvent | ReplyT]:
        """Do the work, and yield its events as they come, then the reply. Closing the generator early cancels it.

        Raises:
            RequestError: As in `await_reply`; before the first event if the work was not begun.
        """
        async with self.open_feed(work.run_id) as events:
            working = asyncio.create_task(self.await_reply(work))
            try:
                async for event in yield_events(events, working, _is_end):
                    yield event
                reply = await working
            finally:
                working.cancel()
                await asyncio.wait([working])
        yield reply


async def yield_events(
    events: AsyncIterator[EventT], working: asyncio.Task[ReplyT], is_last: Callable[[EventT], bool]
) -> AsyncGenerator[EventT]:
    """Yield the events of work until its end. Refused work has no events; `working` then holds the error."""
    wait_s: float | None = None
    while True:
        getting = asyncio.ensure_future(anext(events, None))
        waited_for = {getting} if working.done() else {getting, working}
        try:
            await asyncio.wait(waited_for, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            getting.cancel()
        if getting.done() and not getting.cancelled():
            event = getting.result()
            if event is None:  # the connection is closed for good
                return
            yield event
            if is_last(event):
                return
        elif wait_s is not None or working.exception() is not None:
            return
        if working.done():
            wait_s = _LAST_EVENTS_S


def _is_end(event: RunEvent) -> bool:
    return event.kind is RunEventKind.ENDED


async def cancel_work(work_id: str, cancel: Callable[[], Awaitable[bool]]) -> None:
    """Cancel work that nobody waits for. The attempts are repeated, because no service may have it yet."""
    for _ in range(_CANCEL_ATTEMPTS):
        try:
            if await cancel():
                return
        except RequestError as error:
            # The work ends at its limit anyway, and its caller is gone.
            log.warning("work_not_cancelled", work_id=work_id, code=error.code)
            return
        await asyncio.sleep(_CANCEL_PAUSE_S)
