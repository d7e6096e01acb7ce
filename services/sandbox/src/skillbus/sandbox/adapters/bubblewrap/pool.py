"""Sandboxes that wait for a job: each serves one run, and another takes its place afterwards.

They are isolated as those that are started for a run, by the same command line; what they wait with is an interpreter
that has started. A run of other sizes of its file systems than the usual ones starts its own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Final

import structlog

from skillbus.sandbox.adapters.bubblewrap.prepared import Prepared
from skillbus.sandbox.domain.errors import SandboxError

_AGAIN_S: Final = 5.0
"""After a sandbox did not start, the next is tried."""

log = structlog.get_logger(__name__)


class WarmPool:
    """Keeps `size` sandboxes ready while it is open."""

    def __init__(
        self,
        make: Callable[[], Awaitable[Prepared]],
        size: int,
        idle_s: float | None = None,
    ) -> None:
        """Unused for `idle_s` seconds, it empties and closes until it is opened again; never if None."""
        self._make = make
        self._size = size
        self._idle_s = idle_s
        self._ready: deque[Prepared] = deque()
        self._wanted = asyncio.Event()
        self._running = 0
        self._keeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def lacks(self) -> int:
        """How many are to wait besides; none while it is closed."""
        return self._size - len(self._ready) if self._keeper is not None and not self._keeper.done() else 0

    @property
    def pids(self) -> frozenset[int]:
        """Processes of those that wait."""
        return frozenset(pid for ready in self._ready for pid in (ready.sandbox.pid, *ready.pids))

    def open(self) -> None:
        """Begin to fill it, unless it was opened before."""
        if self._size and (self._keeper is None or self._keeper.done()):
            self._wanted.set()
            # Opened in the midst of a run, it is not that run's.
            self._keeper = asyncio.create_task(self._keep(), name="sandbox-pool", context=Context())

    async def take(self) -> Prepared | None:
        """One that waits; None when none does. To be ended by whoever took it."""
        while self._ready:
            ready = self._ready.popleft()
            if ready.sandbox.is_running():
                return ready
            await ready.end()  # the machine took it, as for want of memory
        self._wanted.set()
        return None

    def run_begins(self) -> None:
        """While runs use the machine one is started when a run has found none, and no more."""
        self._running += 1

    def run_ended(self) -> None:
        """There may be room again."""
        self._running -= 1
        self._wanted.set()

    async def close(self) -> None:
        """Nothing is left of those that wait."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        await self._empty()

    async def _empty(self) -> None:
        while self._ready:
            await self._ready.popleft().end()

    async def _keep(self) -> None:
        while await self._is_wanted():
            while len(self._ready) < self._size and self._has_time():
                try:
                    self._ready.append(await self._make())
                except (SandboxError, OSError) as error:
                    log.warning("sandbox_not_prepared", reason=str(error))
                    asyncio.get_running_loop().call_later(_AGAIN_S, self._wanted.set)
                    break
        await self._empty()

    def _has_time(self) -> bool:
        """Beside runs one is enough: it is ready when the next begins, and takes no time from several."""
        return self._running == 0 or not self._ready

    async def _is_wanted(self) -> bool:
        """Waits until one may be missing; False when nobody took one for too long."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._wanted.wait()
        except TimeoutError:
            return self._running > 0
        self._wanted.clear()
        return True
