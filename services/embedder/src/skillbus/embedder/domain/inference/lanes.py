"""The queue before the model: two lanes, cut into batches. Not thread-safe; the batcher's task owns it."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from skillbus.embedder.domain.errors import OverloadedError
from skillbus.embedder.domain.inference.vector_cache import CacheKey


class Priority(Enum):
    QUERY = "query"
    """Somebody waits for it."""
    BULK = "bulk"
    """Indexing: overtaken by queries, never starved by them."""


@dataclass(frozen=True, slots=True)
class JobDone:
    """The vector of one text, shape (dim,), not writeable; or why there is none."""

    vector: NDArray[np.float32] | None
    failure: Exception | None
    queue_ms: float
    inference_ms: float
    tokens: float = 0.0


@dataclass(slots=True, eq=False)
class Job:
    """One text to embed, for all who asked for it at the same time.

    Its outcome is a value even in failure: a future's exception that nobody is left to collect is logged by asyncio.
    """

    key: CacheKey
    tokens: int
    priority: Priority
    outcome: asyncio.Future[JobDone]
    queued_at: float
    waiters: int = 0
    taken: bool = False

    @property
    def wanted(self) -> bool:
        return self.waiters > 0 and not self.taken


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Texts, except where it says tokens."""

    batch_tokens: int
    batch_texts: int = 64
    padded: bool = False
    queued: int = 4096
    """In each lane: bulk work cannot take a query's place."""
    bulk_turn: int = 4
    """After so many batches of queries in a row, waiting bulk work has a turn: it keeps a fifth of the model."""


@dataclass(slots=True)
class Lanes:
    limits: LaneLimits
    _lanes: dict[Priority, deque[Job]] = field(default_factory=lambda: {priority: deque() for priority in Priority})
    _queries_in_a_row: int = 0

    def reserve(self, texts: int, priority: Priority) -> None:
        """Raises OverloadedError if the lane has not so many places left; a request is queued whole or not at all."""
        lane = self._lanes[priority]
        if len(lane) + texts > self.limits.queued:
            self._lanes[priority] = lane = deque(job for job in lane if job.wanted)
        if len(lane) + texts > self.limits.queued:
            raise OverloadedError(len(lane), self.limits.queued)

    def append(self, job: Job) -> None:
        self._lanes[job.priority].append(job)

    def promote(self, job: Job) -> None:
        """A query asks for what waits as bulk work: it goes to the queries, and its bulk place is skipped in time."""
        if job.priority is Priority.BULK and not job.taken:
            job.priority = Priority.QUERY
            self._lanes[Priority.QUERY].append(job)

    def take(self) -> list[Job]:
        """The next batch: of one lane and one role, in order of arrival, within the limits; empty if nothing waits.

        A text that alone exceeds the token budget is a batch of its own.
        """
        bulk_waits = self._has_wanted(Priority.BULK)
        bulk_first = bulk_waits and self._queries_in_a_row >= self.limits.bulk_turn
        if self._has_wanted(Priority.QUERY) and not bulk_first:
            self._queries_in_a_row = self._queries_in_a_row + 1 if bulk_waits else 0
            return self._cut(self._lanes[Priority.QUERY])
        self._queries_in_a_row = 0
        return self._cut(self._lanes[Priority.BULK])

    def drain(self) -> Iterator[Job]:
        """Everything that is still waited for, each job once."""
        for lane in self._lanes.values():
            while lane:
                job = lane.popleft()
                if job.wanted:
                    job.taken = True
                    yield job

    def _has_wanted(self, priority: Priority) -> bool:
        """Drops the abandoned and the taken from the head of a lane."""
        lane = self._lanes[priority]
        while lane and not lane[0].wanted:
            lane.popleft()
        return bool(lane)

    def _cut(self, lane: deque[Job]) -> list[Job]:
        batch: list[Job] = []
        total = longest = 0
        while lane and len(batch) < self.limits.batch_texts:
            job = lane[0]
            if job.wanted:
                total, longest = total + job.tokens, max(longest, job.tokens)
                cost = longest * (len(batch) + 1) if self.limits.padded else total
                if batch and (cost > self.limits.batch_tokens or job.key.role is not batch[0].key.role):
                    break
                job.taken = True
                batch.append(job)
            lane.popleft()
        return batch
