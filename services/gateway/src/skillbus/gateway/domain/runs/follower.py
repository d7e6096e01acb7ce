"""Runs that are followed while they go on, and ended when nobody waits for them any more."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import structlog

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, RunEvent, RunEventKind, RunSelector
from skillbus.contracts.sandbox.skill_runs import SkillRan
from skillbus.gateway.domain.ports import BusCaller

_LAST_EVENTS_S: Final = 2.0
"""How long the rest of what is told may take behind the reply: it was sent before, on the same way."""
_TRIES: Final = 5
_BETWEEN_TRIES_S: Final = 0.1
_CANCEL_S: Final = 3.0

log = structlog.get_logger(__name__)


async def until_the_end(events: AsyncIterator[RunEvent], running: asyncio.Task[SkillRan]) -> AsyncGenerator[RunEvent]:
    """What is told of a run until it ended. One that is refused tells nothing: `running` has the error."""
    wait_s: float | None = None
    while True:
        getting = asyncio.ensure_future(_next(events))
        waited_for = {getting} if running.done() else {getting, running}
        try:
            await asyncio.wait(waited_for, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            getting.cancel()
        if getting.done() and not getting.cancelled():
            event = getting.result()
            if event is None:
                return
            yield event
            if event.kind is RunEventKind.ENDED:
                return
        elif wait_s is not None or running.exception() is not None:
            return
        if running.done():
            wait_s = _LAST_EVENTS_S


async def _next(events: AsyncIterator[RunEvent]) -> RunEvent | None:
    """The next one; None when the connection is gone for good."""
    return await anext(events, None)


async def cancel_for_good(caller: BusCaller, run: RunSelector) -> None:
    """End a run that nobody waits for. It may not have reached its sandbox yet, so that it is tried a few times."""
    for _ in range(_TRIES):
        try:
            await caller.call(CANCEL_RUN, run, timeout_s=_CANCEL_S)
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                # It ends at its limit, and its caller is gone: there is nobody to be told.
                log.warning("run_not_cancelled", run_id=run.run_id, code=error.code)
                return
            await asyncio.sleep(_BETWEEN_TRIES_S)
        else:
            return
