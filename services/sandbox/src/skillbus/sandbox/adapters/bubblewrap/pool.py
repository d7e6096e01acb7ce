"""Pool of warm sandboxes. Each serves one run; another one then takes its place.

Warm sandboxes are isolated by the same command line as others; the difference is that their interpreter has started. A
run with other sizes of file systems than the default starts its own sandbox.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from contextvars import Context
from functools import partial
from typing import Final

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import Warm
from skillbus.sandbox.adapters.bubblewrap.starter import ReadySandbox
from skillbus.sandbox.domain.errors import SandboxError

_RETRY_S: Final = 5.0
"""Pause after a sandbox did not start."""
_NODE_IDLE_S: Final = 300.0
"""A waiting Node holds four times the memory of a Python, so it is kept only while Node is used."""
PROJECTS_MAX: Final = 4
"""Projects with warm sandboxes and a fork server. More are kept only while that many have runs at once."""

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
        self._closing = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def is_in_use(self) -> bool:
        """True while runs are going on that take sandboxes from it."""
        return self._running > 0

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
            if ready.is_running():
                return ready
            await ready.end()  # the machine ended it, for example for lack of memory
        self._wanted.set()
        return None

    def begin_run(self) -> None:
        """Note that a run of this pool begins: during such runs a sandbox is started only if the pool is empty."""
        self._running += 1

    def end_run(self) -> None:
        """Note that a run of this pool has ended. After the last one the pool fills again."""
        self._running -= 1
        self._wanted.set()

    async def close(self) -> None:
        """Stop filling the pool for good and end all its sandboxes, also if the end of one fails."""
        self._closing = True
        try:
            if self._keeper is not None:
                self._keeper.cancel()
                with suppress(asyncio.CancelledError):
                    await self._keeper
        finally:
            await self._empty()

    async def _empty(self) -> None:
        async with AsyncExitStack() as ends:
            while self._ready:
                ends.push_async_callback(self._ready.popleft().end)

    async def _keep_filled(self) -> None:
        while not self._closing and await self._wait_until_wanted():
            # During runs of this pool one warm sandbox is enough: it is ready for the next run, and takes little time
            # from the others.
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


class ProjectPools:
    """Warm pools of the projects that ran skills last. Sandboxes of different projects come from different pools."""

    def __init__(
        self,
        start: Callable[[str, Warm], Awaitable[ReadySandbox]],
        size: int,
        retire: Callable[[str], None],
        schedule: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        """`retire` lets the project's fork server end; `schedule` runs the end of a project's pools soon."""
        self._start = start
        self._size = size
        self._retire = retire
        self._schedule = schedule
        self._pools: dict[str, dict[Warm, WarmPool]] = {}
        """By project, least recently used first."""

    def begin_run(self, project: str, runtime: Runtime) -> WarmPool:
        """Return the pool for a run, which the caller ends with `end_run`."""
        pool = self._use_project(project)[Warm.NODE if runtime is Runtime.NODE else Warm.USUAL]
        pool.begin_run()
        self._trim()
        return pool

    def end_run(self, pool: WarmPool) -> None:
        """Note that a run of `pool` has ended."""
        pool.end_run()
        self._trim()

    def open_first(self, project: str) -> None:
        """Open the usual pool of `project`, unless another project has run a skill."""
        if self._pools.keys() <= {project}:
            self._use_project(project)[Warm.USUAL].open()

    def list_pools(self) -> list[WarmPool]:
        """Return the pools of all projects."""
        return [pool for pools in self._pools.values() for pool in pools.values()]

    async def close(self) -> None:
        """End all warm sandboxes, also if the end of one fails."""
        await _close_pools(self.list_pools())

    def _use_project(self, project: str) -> dict[Warm, WarmPool]:
        """Return the pools of a project, which becomes the one that was used last."""
        pools = self._pools.pop(project, None)
        if pools is None:
            usual = WarmPool(partial(self._start, project, Warm.USUAL), self._size)
            node = WarmPool(partial(self._start, project, Warm.NODE), min(self._size, 1), _NODE_IDLE_S)
            pools = {Warm.USUAL: usual, Warm.NODE: node}
        self._pools[project] = pools
        return pools

    def _trim(self) -> None:
        """Give up excess projects without runs, those that were used longest ago first."""
        unused = [project for project in self._pools if not self._is_in_use(project)]
        for project in unused[: max(len(self._pools) - PROJECTS_MAX, 0)]:
            self._schedule(partial(self._end, project, self._pools.pop(project)))

    def _is_in_use(self, project: str) -> bool:
        return any(pool.is_in_use for pool in self._pools[project].values())

    async def _end(self, project: str, pools: dict[Warm, WarmPool]) -> None:
        try:
            await _close_pools(pools.values())
        finally:
            if project not in self._pools:  # it may have come back meanwhile
                self._retire(project)


async def _close_pools(pools: Iterable[WarmPool]) -> None:
    async with AsyncExitStack() as ends:
        for pool in pools:
            ends.push_async_callback(pool.close)
