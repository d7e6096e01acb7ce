"""What the indexer tells, to every replica at once: each wakes those who wait in it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from nats.aio.msg import Msg

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.index import KNOWLEDGE_INDEXED, KnowledgeIndexed
from skillbus.contracts.learner.knowledge import KnowledgeRef

log = structlog.get_logger(__name__)


@asynccontextmanager
async def listen_to_index(bus: Bus, told: Callable[[Sequence[KnowledgeRef]], None]) -> AsyncGenerator[None]:
    """Call `told` with what the index has, as it comes. Nothing is kept: the durable consumer writes it down."""

    async def on_message(message: Msg) -> None:
        try:
            told(decode(KnowledgeIndexed, message.data).items)
        except RequestError as error:
            # The durable consumer keeps it as a dead letter; nobody waits longer than they said.
            log.warning("index_told_nonsense", error=error.message)

    subscription = await bus.client.subscribe(KNOWLEDGE_INDEXED.pattern, cb=on_message)
    try:
        yield
    finally:
        if not bus.client.is_closed:
            await subscription.unsubscribe()
