"""The learner's ends of the index events: announces changes of items, and listens to what the index has written."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from nats.aio.msg import Msg

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KNOWLEDGE_INDEXED, KnowledgeChanged, KnowledgeIndexed
from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.domain.index.index_waiter import IndexWaiter

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BusItemAnnouncer:
    """Publishes to the stream and waits for its acknowledgement."""

    bus: Bus

    async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        await publish_event(
            self.bus,
            KNOWLEDGE_CHANGED,
            KnowledgeChanged(items=tuple(refs)),
            identity=project,
            message_id=f"knowledge-changed:{identity}",
            project=project,
        )


@asynccontextmanager
async def listen_to_index(bus: Bus, waiter: IndexWaiter) -> AsyncGenerator[None]:
    """End waits of this replica while the context is open. The durable consumer, of one replica, keeps the record."""

    async def on_message(message: Msg) -> None:
        try:
            waiter.mark_indexed(decode(KnowledgeIndexed, message.data).items)
        except RequestError as error:
            # The durable consumer stores it as a dead letter; waits end by their timeout.
            log.warning("index_event_invalid", error=error.message)

    subscription = await bus.client.subscribe(KNOWLEDGE_INDEXED.pattern, cb=on_message)
    try:
        yield
    finally:
        if not bus.client.is_closed:
            await subscription.unsubscribe()
