"""Pool of warm sandboxes. Each serves one run; another one then takes its place.

Warm sandboxes are isolated by the same command line as others; the difference is that their interpreter has started. A
run with other sizes of file systems than the default starts its own sandbox.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Final

import structlog

from skillbus.sandbox.adapters.bubblewrap.starter import ReadySandbox
from skillbus.sandbox.domain.errors import SandboxError

_RETRY_S: Final = 5.0
"""Pause after a sandbox did not start."""

log = structlog.get_logger(__name__)


class WarmPool:
    """Keeps `size` sandboxes ready while it is open."""

    def __init__(self, start: Callable[[], Awaitable[ReadySandbox]], size: int, idle_s: float | None = None) -> None:
        """Unused for `idle_s` seconds, the pool empties and closes itself until `open` is called; never if None."""
        self._start = start
        self._size = size
        self._idle_s = idle_s
        self._ready: deque[ReadySandbox] = deque()
        self._wanted = asyncio.Event()
        self._running = 0
        self._keeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def missing(self) -> int:
        """Number of sandboxes still to start; 0 while the pool is closed."""
        return self._size - len(self._ready) if self._keeper is not None and not self._keeper.done() else 0

    @property
    def pids(self) -> frozenset[int]:
        """Processes of the sandboxes in the pool."""
        return frozenset(pid for ready in self._ready for pid in (ready.sandbox.pid, *ready.pids))

    def open(self) -> None:
        """Start filling the pool, unless it is open."""
        if self._size and (self._keeper is None or self._keeper.done()):
            self._wanted.set()
            # An empty context: the task must not inherit the log context of the run that happens to open the pool.
            self._keeper = asyncio.create_task(self._keep_filled(), name="sandbox-pool", context=Context())

    async def take_sandbox(self) -> ReadySandbox | None:
        """Return a sandbox, which the caller then owns; None if none is ready."""
        while self._ready:
            ready = self._ready.popleft()
            if ready.sandbox.is_running():
                return ready
            await ready.end()  # the machine ended it, for example for lack of memory
        self._wanted.set()
        return None

    def begin_run(self) -> None:
        """Note that a run uses the machine: from now on a sandbox is started only if the pool is empty."""
        self._running += 1

    def end_run(self) -> None:
        """Note that a run has ended, so that the pool may fill again."""
        self._running -= 1
        self._wanted.set()

    async def close(self) -> None:
        """Stop filling the pool and end its sandboxes."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        await self._empty()

    async def _empty(self) -> None:
        while self._ready:
            await self._ready.popleft().end()

    async def _keep_filled(self) -> None:
        while await self._wait_until_wanted():
            # During runs one warm sandbox is enough: it is ready for the next run, and takes little time from others.
            while len(self._ready) < self._size and (self._running == 0 or not self._ready):
                try:
                    self._ready.append(await self._start())
                except (SandboxError, OSError) as error:
                    log.warning("warm_sandbox_failed", reason=str(error))
                    asyncio.get_running_loop().call_later(_RETRY_S, self._wanted.set)
                    break
        await self._empty()

    async def _wait_until_wanted(self) -> bool:
        """Wait until a sandbox may be missing. Return False after `idle_s` seconds without a run."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._wanted.wait()
        except TimeoutError:
            return self._running > 0
        self._wanted.clear()
        return True
