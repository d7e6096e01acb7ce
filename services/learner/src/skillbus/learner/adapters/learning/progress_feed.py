"""Publishes the progress of jobs."""

from dataclasses import dataclass

from nats.errors import Error as NatsError

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_to_feed
from skillbus.contracts.learner.learning_jobs import LEARNING_ADVANCED, LearningAdvanced


@dataclass(frozen=True, slots=True)
class BusProgressFeed:
    """Feed on the bus."""

    bus: Bus

    async def announce_progress(self, progress: LearningAdvanced) -> None:
        try:
            await publish_to_feed(self.bus.client, LEARNING_ADVANCED, progress.id, progress)
        except NatsError:
            return  # the record has it too
