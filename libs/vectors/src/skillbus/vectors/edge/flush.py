"""Flushing behind writes: soon after the first of a burst, once for all of it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from skillbus.vectors.errors import VectorStoreError

_logger = logging.getLogger(__name__)


class FlushBehind:
    """Calls `flush` `delay_s` seconds after a write was marked; a flush that fails is logged and tried again."""

    def __init__(self, flush: Callable[[], Awaitable[None]], delay_s: float) -> None:
        self._flush = flush
        self._delay_s = delay_s
        self._written = asyncio.Event()

    def mark(self) -> None:
        """Something was written."""
        self._written.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Own the task that flushes; what is marked at the end is left to the caller's last flush."""
        task = asyncio.create_task(self._run(), name="vector-store-flush")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            await self._written.wait()
            await asyncio.sleep(self._delay_s)
            self._written.clear()
            try:
                await self._flush()
            except VectorStoreError:
                _logger.exception("vector_store_flush_failed")
                self._written.set()
