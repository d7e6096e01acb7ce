"""What was found and used, told to the stream of facts, off the path of the answers."""

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
from skillbus.retriever.domain.waiting_uses import Note, WaitingUses

_FLUSH_WITHIN_S: Final = 5.0

log = structlog.get_logger(__name__)


class BusUsage:
    """A `UsageLog` that tells many answers of a project as one fact, in their order, while it is `running`.

    An answer waits `gather_s` for others of its project, or until half of what is held waits. A fact costs the bus, and
    the learner's database, much the same whether it tells of one answer or of a hundred.

    Statistics are not worth an answer: of more notes than `size` the oldest are dropped, and counted.
    """

    def __init__(self, bus: Bus, size: int, gather_s: float) -> None:
        self._bus = bus
        self._waiting = WaitingUses(size)
        self._gather_s = gather_s
        self._there = asyncio.Event()
        self._enough = asyncio.Event()
        """Nobody waits for more: many are there, or no more will come."""
        self._told = asyncio.Event()
        self._told.set()
        self._at_work = 0
        self._ending = False
        self.dropped = 0
        """Answers that nobody will hear of."""

    def note(self, project: str, answered: AnsweredRequest) -> None:
        if dropped := self._waiting.add(Note(project, answered, time.monotonic())):
            self._drop([dropped.answered], "too many wait to be told")
        self._told.clear()
        self._there.set()
        if self._waiting.many:
            self._enough.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Tell what is noted; at the end, what is left, at once and within five seconds."""
        telling = asyncio.create_task(self._tell(), name="knowledge-usage")
        try:
            yield
        finally:
            self._ending = True
            self._enough.set()
            if not await finish_within(self._told.wait(), _FLUSH_WITHIN_S):
                log.warning("knowledge_uses_lost", uses=len(self._waiting) + self._at_work)
            telling.cancel()
            await asyncio.wait({telling})
            if not telling.cancelled() and (failure := telling.exception()):
                log.error("knowledge_usage_failed", exc_info=failure)

    async def _tell(self) -> None:
        while True:
            await self._there.wait()
            await finish_within(self._enough.wait(), self._waiting.since + self._gather_s - time.monotonic())
            await self._publish(self._waiting.take())
            if not self._waiting:
                self._there.clear()
                self._told.set()
            if not self._waiting.many and not self._ending:
                self._enough.clear()

    async def _publish(self, used: KnowledgeUsed) -> None:
        self._at_work = len(used.requests)
        try:
            await publish_event(
                self._bus,
                KNOWLEDGE_USED,
                used,
                identity=used.project,
                message_id=uuid4().hex,  # of this fact, however often it is tried
                project=used.project,
            )
        except RequestError as error:
            self._drop(used.requests, error.message)
        self._at_work = 0

    def _drop(self, answered: Sequence[AnsweredRequest], reason: str) -> None:
        self.dropped += len(answered)
        log.warning(
            "knowledge_uses_dropped",
            first_request_id=answered[0].request_id,
            uses=len(answered),
            dropped=self.dropped,
            reason=reason,
        )
