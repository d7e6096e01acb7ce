"""Usage statistics published as events, off the path of the answers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

import structlog

from skillbus.common.background import finish_within
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.usage import KNOWLEDGE_USED, AnsweredRequest, KnowledgeUsed
from skillbus.retriever.domain.usage import UsageNote, UsageQueue

_FLUSH_WITHIN_S: Final = 5.0

log = structlog.get_logger(__name__)


class BusUsage:
    """A `UsageLog` that publishes many answers of a project as one event, in their order, while it is `running`.

    An answer waits `gather_s` for others of its project, or until the queue is half full. An event costs the bus and
    the learner's database much the same, whether it has one answer or a hundred.

    Statistics may be lost: when more than `size` notes wait, the oldest are dropped and counted.
    """

    def __init__(self, bus: Bus, size: int, gather_s: float) -> None:
        self._bus = bus
        self._queue = UsageQueue(size)
        self._gather_s = gather_s
        self._has_notes = asyncio.Event()
        self._publish_now = asyncio.Event()
        """Set when waiting for more notes is useless: the queue is half full, or the service ends."""
        self._drained = asyncio.Event()
        self._drained.set()
        self._in_flight = 0
        self._ending = self._closing = False
        self.dropped = 0
        """Answers that were not published."""

    def note(self, project: str, answered: AnsweredRequest) -> None:
        if dropped := self._queue.add_note(UsageNote(project, answered, time.monotonic())):
            self._drop([dropped.answered], "too many notes wait")
        self._drained.clear()
        self._has_notes.set()
        if self._queue.is_half_full:
            self._publish_now.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Publish notes; at the end publish what is left, within five seconds."""
        publisher = asyncio.create_task(self._publish_notes(), name="knowledge-usage")
        try:
            yield
        finally:
            self._ending = True
            self._publish_now.set()
            if not await finish_within(self._drained.wait(), _FLUSH_WITHIN_S):
                log.warning("knowledge_uses_lost", uses=len(self._queue) + self._in_flight)
            self._closing = True  # before Python 3.12 a wait in nats-py can swallow the cancellation
            publisher.cancel()
            await asyncio.wait({publisher})
            if not publisher.cancelled() and (failure := publisher.exception()):
                log.error("knowledge_usage_failed", exc_info=failure)

    async def _publish_notes(self) -> None:
        while not self._closing:
            await self._has_notes.wait()
            await finish_within(self._publish_now.wait(), self._queue.oldest_at + self._gather_s - time.monotonic())
            await self._publish(self._queue.take_batch())
            if not self._queue:
                self._has_notes.clear()
                self._drained.set()
            if not self._queue.is_half_full and not self._ending:
                self._publish_now.clear()

    async def _publish(self, used: KnowledgeUsed) -> None:
        self._in_flight = len(used.requests)
        try:
            await publish_event(
                self._bus,
                KNOWLEDGE_USED,
                used,
                identity=used.project,
                message_id=uuid4().hex,  # one id for all attempts to publish this event
                project=used.project,
            )
        except RequestError as error:
            self._drop(used.requests, error.message)
        self._in_flight = 0

    def _drop(self, answered: Sequence[AnsweredRequest], reason: str) -> None:
        self.dropped += len(answered)
        log.warning(
            "knowledge_uses_dropped",
            first_request_id=answered[0].request_id,
            uses=len(answered),
            dropped=self.dropped,
            reason=reason,
        )
