"""Work that is done again and again while the service is open."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import structlog

from skillbus.common.background import finish_within
from skillbus.learner.domain.errors import KnowledgeUnavailableError

log = structlog.get_logger(__name__)


class PostponedError(Exception):
    """A piece of work cannot be done now, for something is away that will be back."""


class Recurring:
    """A piece of work that is done when it is woken, and every `every_s` seconds."""

    def __init__(self, name: str, work: Callable[[], Awaitable[bool]], every_s: float) -> None:
        """`work` says whether there is more to do at once; one that is postponed comes again by the clock."""
        self._name = name
        self._work = work
        self._every_s = every_s
        self._woken = asyncio.Event()
        self._stop = asyncio.Event()

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def stop(self) -> None:
        """Begin nothing more. Beside a cancellation: what waits in nats-py can swallow one before Python 3.12."""
        self._stop.set()
        self._woken.set()

    async def run(self) -> None:
        """Until `stop` is called."""
        while not self._stop.is_set():
            self._woken.clear()
            more = await self._tried()
            if more is None:
                # Not sooner, however often it is woken: each try would be in vain and may take long.
                await finish_within(self._stop.wait(), self._every_s)
            elif not more:
                await finish_within(self._woken.wait(), self._every_s)

    async def _tried(self) -> bool | None:
        """What the work says; None when it failed."""
        try:
            return await self._work()
        except (PostponedError, KnowledgeUnavailableError) as error:
            log.warning("task_postponed", task=self._name, reason=str(error), again_in_s=self._every_s)
        except Exception:
            # The supervisor: what nobody foresaw is logged, and the next round comes.
            log.exception("task_failed", task=self._name, again_in_s=self._every_s)
        return None


@asynccontextmanager
async def kept_up(works: Sequence[Recurring]) -> AsyncGenerator[None]:
    """Do the works while the context is open."""
    tasks = [asyncio.create_task(work.run()) for work in works]
    try:
        yield
    finally:
        for work in works:
            work.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
