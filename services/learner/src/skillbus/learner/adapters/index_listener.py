"""Listens to what the index has written, in each replica, to end the waits of its requests."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from nats.aio.msg import Msg

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.index import KNOWLEDGE_INDEXED, KnowledgeIndexed
from skillbus.learner.domain.index.index_waiter import IndexWaiter

log = structlog.get_logger(__name__)


@asynccontextmanager
async def listen_to_index(bus: Bus, waiter: IndexWaiter) -> AsyncGenerator[None]:
    """End waits while the context is open. The durable consumer, of one replica, keeps the record."""

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
