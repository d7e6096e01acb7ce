"""Cleanup of finished runs, in background tasks behind their replies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final

import structlog

_DELAY_S: Final = 0.005
"""Pause before a cleanup, so that the reply goes out first unless the machine is busy."""
_PENDING_MAX: Final = 32
"""Cleanups that may be pending before the next run has to wait."""

log = structlog.get_logger(__name__)


class RunCleanup:
    """Background tasks that clean up after runs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def schedule(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` soon, also if the calling task is cancelled."""
        task = asyncio.create_task(_run_later(work), name="sandbox-cleanup", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_room(self) -> None:
        """Wait while too many cleanups are pending."""
        while len(self._tasks) >= _PENDING_MAX:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def wait_until_done(self) -> None:
        """Wait until no cleanup is pending."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _run_later(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await asyncio.sleep(_DELAY_S)
    finally:  # also when the loop is being closed
        try:
            await work()
        except Exception:  # no caller waits for the result: the log is the only place to report it
            log.exception("sandbox_cleanup_failed")
