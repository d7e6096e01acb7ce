"""What is left of runs beside their processes is cleared away when their replies are out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final

import structlog

_REPLY_FIRST_S: Final = 0.005
"""A reply is out by then, unless the machine is busy: what is done here waits for nobody."""
_AT_ONCE: Final = 32
"""Runs that may be left to be cleared away before the next one has to wait for it."""

log = structlog.get_logger(__name__)


class Clearing:
    """Does it, and tells when it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def later(self, work: Callable[[], Awaitable[object]]) -> None:
        """Soon, whatever becomes of whoever asks for it."""
        task = asyncio.create_task(_do(work), name="sandbox-clearing", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def keep_up(self) -> None:
        """Wait while too much is left."""
        while len(self._tasks) >= _AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def settled(self) -> None:
        """Wait until nothing is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _do(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await asyncio.sleep(_REPLY_FIRST_S)
    finally:  # also when the loop is being closed
        try:
            await work()
        except Exception:  # nobody waits for it: the log is where it can be told
            log.exception("sandbox_not_cleared")
