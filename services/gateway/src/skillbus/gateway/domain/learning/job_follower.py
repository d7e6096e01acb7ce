"""Follows a job that learns: its progress as it comes, and its end."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_JOB,
    LearningJob,
    LearningJobSelector,
    LearningStatus,
)
from skillbus.gateway.domain.feed_pauses import yield_pauses
from skillbus.gateway.domain.ports import BusCaller, OpenLearningFeed

ENDED: Final = frozenset({LearningStatus.DONE, LearningStatus.FAILED, LearningStatus.CANCELLED})
_LOOK_EVERY_S: Final = 15.0
"""Longest silence. A message of the feed can be lost; then the job itself says how far it is."""


@dataclass(frozen=True, slots=True)
class JobFollower:
    """Yields the states of jobs."""

    caller: BusCaller
    open_feed: OpenLearningFeed

    async def follow_job(self, wanted: LearningJobSelector) -> AsyncGenerator[LearningJob]:
        """Yield the job now and after each step, last at its end.

        Raises:
            RequestError: The project has no such job, or the learner is away.
        """
        job = await self.caller.call(GET_LEARNING_JOB, wanted)  # before the feed: it may be another project's
        async with self.open_feed(wanted.id) as events:
            job = await self.caller.call(GET_LEARNING_JOB, wanted)
            yield job
            if job.status in ENDED:
                return
            async for event in yield_pauses(events, _LOOK_EVERY_S):
                if event is None or event.status in ENDED:
                    job = await self.caller.call(GET_LEARNING_JOB, wanted)
                else:
                    job = job.model_copy(update={"status": event.status, "progress": event.progress})
                yield job
                if job.status in ENDED:
                    return
