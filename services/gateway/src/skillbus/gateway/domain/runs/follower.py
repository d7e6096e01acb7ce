"""Events of a run while it lasts, and cancellation of runs that nobody waits for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import structlog

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, RunEvent, RunEventKind, RunSelector
from skillbus.contracts.sandbox.skill_runs import SkillRan
from skillbus.gateway.domain.ports import BusCaller

_LAST_EVENTS_S: Final = 2.0
"""Longest wait for the remaining events after the reply. They were sent before it, on the same connection."""
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.1
_CANCEL_TIMEOUT_S: Final = 3.0

log = structlog.get_logger(__name__)


async def follow_run(events: AsyncIterator[RunEvent], running: asyncio.Task[SkillRan]) -> AsyncGenerator[RunEvent]:
    """Yield the events of a run until its end. A refused run has no events; `running` then holds the error."""
    wait_s: float | None = None
    while True:
        getting = asyncio.ensure_future(_get_next(events))
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


async def _get_next(events: AsyncIterator[RunEvent]) -> RunEvent | None:
    """Return the next event; None if the connection is closed for good."""
    return await anext(events, None)


async def cancel_run(caller: BusCaller, run: RunSelector) -> None:
    """Cancel a run that nobody waits for. The attempts are repeated, because its sandbox may not have it yet."""
    for _ in range(_ATTEMPTS):
        try:
            await caller.call(CANCEL_RUN, run, timeout_s=_CANCEL_TIMEOUT_S)
        except RequestError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                # The run ends at its limit anyway, and its caller is gone.
                log.warning("run_not_cancelled", run_id=run.run_id, code=error.code)
                return
            await asyncio.sleep(_PAUSE_S)
        else:
            return
