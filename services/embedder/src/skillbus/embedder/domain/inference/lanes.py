"""Queue in front of a model: one lane for queries and one for bulk work, cut into batches.

Not thread-safe: the batcher's task owns it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import OverloadedError


class Priority(Enum):
    """Lane of a request."""

    QUERY = "query"
    """Somebody waits for it."""
    BULK = "bulk"
    """Indexing: queries overtake it but never starve it."""


@dataclass(frozen=True, slots=True)
class VectorKey:
    """Everything a vector depends on. `text` is normalised."""

    fingerprint: str
    role: TextRole
    text: str


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Read-only vector of one text, shape (dim,), or the failure."""

    vector: NDArray[np.float32] | None
    failure: Exception | None
    inference_ms: float = 0.0
    tokens: float = 0.0


@dataclass(slots=True, eq=False)
class EmbeddingJob:
    """One text to embed, shared by all callers that want it at the same time.

    The outcome is a value also for a failure: asyncio logs a future's exception that nobody is left to collect.
    """

    key: VectorKey
    tokens: int
    priority: Priority
    outcome: asyncio.Future[JobOutcome]
    waiters: int = 0
    taken: bool = False

    @property
    def is_wanted(self) -> bool:
        return self.waiters > 0 and not self.taken


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Limits of a queue and its batches, in texts unless the name says tokens."""

    batch_tokens: int
    batch_texts: int = 64
    padded: bool = False
    queued: int = 4096
    """Places in each lane: bulk work cannot take a query's place."""
    bulk_turn: int = 4
    """Query batches in a row after which waiting bulk work gets one: it keeps a fifth of the model."""


@dataclass(slots=True)
class Lanes:
    """The two lanes of one model."""

    limits: LaneLimits
    _lanes: dict[Priority, deque[EmbeddingJob]] = field(
        default_factory=lambda: {priority: deque() for priority in Priority}
    )
    _queries_in_a_row: int = 0

    def check_places(self, texts: int, priority: Priority) -> None:
        """Raise OverloadedError unless the lane has this many free places. No part of a refused request is queued."""
        lane = self._lanes[priority]
        if len(lane) + texts > self.limits.queued:
            self._lanes[priority] = lane = deque(job for job in lane if job.is_wanted)
        if len(lane) + texts > self.limits.queued:
            raise OverloadedError(len(lane), self.limits.queued)

    def append_job(self, job: EmbeddingJob) -> None:
        self._lanes[job.priority].append(job)

    def promote_job(self, job: EmbeddingJob) -> None:
        """Move a bulk job that a query now wants to the query lane. Its bulk place is skipped later."""
        if job.priority is Priority.BULK and not job.taken:
            job.priority = Priority.QUERY
            self._lanes[Priority.QUERY].append(job)

    def take_batch(self) -> list[EmbeddingJob]:
        """Return the next batch: of one lane and one role, in order of arrival, within the limits; empty if idle.

        A text that alone exceeds the token budget gets a batch for itself.
        """
        bulk_waits = self._has_wanted(Priority.BULK)
        bulk_first = bulk_waits and self._queries_in_a_row >= self.limits.bulk_turn
        if self._has_wanted(Priority.QUERY) and not bulk_first:
            self._queries_in_a_row = self._queries_in_a_row + 1 if bulk_waits else 0
            return self._cut_batch(self._lanes[Priority.QUERY])
        self._queries_in_a_row = 0
        return self._cut_batch(self._lanes[Priority.BULK])

    def drain_jobs(self) -> Iterator[EmbeddingJob]:
        """Remove and yield every job that somebody waits for, each once."""
        for lane in self._lanes.values():
            while lane:
                job = lane.popleft()
                if job.is_wanted:
                    job.taken = True
                    yield job

    def _has_wanted(self, priority: Priority) -> bool:
        """Drop abandoned and taken jobs from the head of a lane. Return True if a job is left."""
        lane = self._lanes[priority]
        while lane and not lane[0].is_wanted:
            lane.popleft()
        return bool(lane)

    def _cut_batch(self, lane: deque[EmbeddingJob]) -> list[EmbeddingJob]:
        batch: list[EmbeddingJob] = []
        total = longest = 0
        while lane and len(batch) < self.limits.batch_texts:
            job = lane[0]
            if job.is_wanted:
                total, longest = total + job.tokens, max(longest, job.tokens)
                cost = longest * (len(batch) + 1) if self.limits.padded else total
                if batch and (cost > self.limits.batch_tokens or job.key.role is not batch[0].key.role):
                    break
                job.taken = True
                batch.append(job)
            lane.popleft()
        return batch
