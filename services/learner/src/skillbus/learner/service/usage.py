"""What is used and said of knowledge, and the reports about it."""

from dataclasses import dataclass

from skillbus.common.bus.events import Delivery, Subscription
from skillbus.common.bus.responder import Route, route
from skillbus.contracts.learner import usage as contract
from skillbus.contracts.resources import LEARNER_USES
from skillbus.learner.domain.usage.usage import Usage


@dataclass(frozen=True, slots=True)
class UsageHandlers:
    """Answers those who give feedback and those who look at it."""

    usage: Usage

    def routes(self) -> tuple[Route, ...]:
        return (
            route(contract.GIVE_FEEDBACK, self.usage.feedback, permits=64),
            route(contract.GET_KNOWLEDGE_USAGE, self.usage.of_item, permits=64),
            route(contract.GET_KNOWLEDGE_STATS, self.usage.stats, permits=4),
        )

    def subscriptions(self) -> tuple[Subscription, ...]:
        return (Subscription(LEARNER_USES, self.on_used),)

    async def on_used(self, delivery: Delivery) -> None:
        await self.usage.count(delivery.decode(contract.KnowledgeUsed))
