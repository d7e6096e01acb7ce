"""An indexer that has no index: it says of what changed that it has it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from nats.aio.msg import Msg

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KNOWLEDGE_INDEXED, KnowledgeChanged, KnowledgeIndexed
from skillbus.contracts.learner.knowledge import KnowledgeRef


@dataclass
class FakeIndex:
    """What it heard of, event by event."""

    bus: Bus
    heard: list[KnowledgeChanged] = field(default_factory=list)
    answers: bool = True

    async def hear(self, message: Msg) -> None:
        self.heard.append(decode(KnowledgeChanged, message.data))
        if self.answers:
            await self.has(self.heard[-1].items)

    async def has(self, refs: Sequence[KnowledgeRef]) -> None:
        """Tell that the index has these."""
        await publish_event(
            self.bus,
            KNOWLEDGE_INDEXED,
            KnowledgeIndexed(items=tuple(refs)),
            identity="knowledge",
            message_id=uuid4().hex,
            project="default",
        )

    async def refs(self) -> list[tuple[str, int]]:
        return [(ref.id, ref.version) for event in self.heard for ref in event.items]


@asynccontextmanager
async def open_fake_index(bus: Bus, *, answers: bool = True) -> AsyncGenerator[FakeIndex]:
    index = FakeIndex(bus, answers=answers)
    subscription = await bus.client.subscribe(KNOWLEDGE_CHANGED.pattern, cb=index.hear)
    try:
        yield index
    finally:
        await subscription.unsubscribe()
