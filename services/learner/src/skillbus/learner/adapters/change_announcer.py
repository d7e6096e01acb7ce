"""Publishes changes of the knowledge base to the stream."""

from collections.abc import Sequence

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.learner.index import KNOWLEDGE_CHANGED, KnowledgeChanged
from skillbus.contracts.learner.knowledge import KnowledgeRef


class BusChangeAnnouncer:
    """Publishes to the stream and waits for its acknowledgement."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        await publish_event(
            self._bus,
            KNOWLEDGE_CHANGED,
            KnowledgeChanged(items=tuple(refs)),
            identity=project,
            message_id=f"knowledge-changed:{identity}",
            project=project,
        )
