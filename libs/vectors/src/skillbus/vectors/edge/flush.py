"""Flushes after writes: once for a burst, soon after its first write."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from skillbus.vectors.errors import VectorStoreError

_logger = logging.getLogger(__name__)


class FlushBehind:
    """Calls `flush` `delay_s` seconds after a write was marked. A failed flush is logged and repeated."""

    def __init__(self, flush: Callable[[], Awaitable[None]], delay_s: float) -> None:
        self._flush = flush
        self._delay_s = delay_s
        self._written = asyncio.Event()

    def mark_write(self) -> None:
        """Note that something was written."""
        self._written.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the flushing task. Writes that are still marked at the end are left to the caller's last flush."""
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
