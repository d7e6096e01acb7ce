"""What was found and used, told to the stream of facts, off the path of the answers."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.facts import publish_fact
from skillbus.common.in_time import in_time
from skillbus.contracts.errors import RequestError
from skillbus.contracts.knowledge_usage import KNOWLEDGE_USED, KnowledgeUsed

_FLUSH_WITHIN_S: Final = 5.0

log = structlog.get_logger(__name__)


class BusUsage:
    """A `UsageLog` whose notes are published one after the other, in their order, while it is `running`.

    Statistics are not worth an answer: of more notes than it holds the oldest are dropped, and counted.
    """

    def __init__(self, bus: Bus, size: int) -> None:
        self._bus = bus
        self._size = size
        self._notes: deque[KnowledgeUsed] = deque()
        self._there = asyncio.Event()
        self._told = asyncio.Event()
        self._told.set()
        self.dropped = 0
        """Notes that nobody will hear of."""

    def note(self, used: KnowledgeUsed) -> None:
        if len(self._notes) >= self._size:
            self._drop(self._notes.popleft(), "too many wait to be told")
        self._notes.append(used)
        self._told.clear()
        self._there.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Tell what is noted; at the end, what is left, within five seconds."""
        telling = asyncio.create_task(self._tell(), name="knowledge-usage")
        try:
            yield
        finally:
            if not await in_time(self._told.wait(), _FLUSH_WITHIN_S):
                log.warning("knowledge_uses_lost", uses=len(self._notes) + 1)
            telling.cancel()
            await asyncio.wait({telling})
            if not telling.cancelled() and (failure := telling.exception()):
                log.error("knowledge_usage_failed", exc_info=failure)

    async def _tell(self) -> None:
        while True:
            await self._there.wait()
            while self._notes:
                await self._publish(self._notes.popleft())
            self._there.clear()
            self._told.set()

    async def _publish(self, used: KnowledgeUsed) -> None:
        try:
            await publish_fact(
                self._bus,
                KNOWLEDGE_USED,
                used,
                identity=used.project,
                message_id=used.request_id,
                project=used.project,
            )
        except RequestError as error:
            self._drop(used, error.message)

    def _drop(self, used: KnowledgeUsed, reason: str) -> None:
        self.dropped += 1
        log.warning("knowledge_use_dropped", request_id=used.request_id, dropped=self.dropped, reason=reason)
