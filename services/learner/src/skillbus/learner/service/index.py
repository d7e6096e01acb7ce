"""What index and search ask of the record, and what the indexer tells it."""

from dataclasses import dataclass

from skillbus.common.bus.events import Delivery, Subscription
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.learner import index as contract
from skillbus.contracts.resources import LEARNER_INDEXED
from skillbus.learner.domain.index.finder import CandidateFinder
from skillbus.learner.domain.index.index_feed import IndexFeed


@dataclass(frozen=True, slots=True)
class IndexHandlers:
    """Answers indexer and retriever."""

    finder: CandidateFinder
    reading: IndexFeed

    def routes(self) -> tuple[Route, ...]:
        return (
            route(contract.FIND_KNOWLEDGE, self.finder.find_knowledge),
            route(contract.READ_KNOWLEDGE, self.reading.read, permits=16),
            route(contract.LIST_KNOWLEDGE_DIGESTS, self.reading.digests, permits=8),
        )

    def subscriptions(self) -> tuple[Subscription, ...]:
        return (Subscription(LEARNER_INDEXED, self.on_indexed),)

    async def on_indexed(self, delivery: Delivery) -> None:
        await self.reading.indexed(delivery.decode(contract.KnowledgeIndexed))
