"""Queue in front of a model: one lane for queries and one for documents, cut into batches.

Not thread-safe: the batcher's task owns it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import OverloadedError
from skillbus.embedder.domain.model import ModelSpec

_DOCUMENT_TURN: Final = 4
"""Query batches in a row after which waiting documents get one: they keep a fifth of the model."""


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
    tokens: float = 0.0


@dataclass(slots=True, eq=False)
class EmbeddingJob:
    """One text to embed, shared by all callers that want it at the same time.

    The outcome is a value also for a failure: asyncio logs a future's exception that nobody is left to collect.
    """

    key: VectorKey
    tokens: int
    outcome: asyncio.Future[JobOutcome]
    waiters: int = 0
    taken: bool = False

    @property
    def is_wanted(self) -> bool:
        return self.waiters > 0 and not self.taken


@dataclass(slots=True)
class Lanes:
    """The two lanes of one model. Queries overtake documents but never starve them."""

    spec: ModelSpec
    places: int
    """Texts that may wait in each lane: documents cannot take a query's place."""
    _lanes: dict[TextRole, deque[EmbeddingJob]] = field(default_factory=lambda: {role: deque() for role in TextRole})
    _queries_in_a_row: int = 0

    def check_places(self, texts: int, role: TextRole) -> None:
        """Raise OverloadedError unless the lane has this many free places. No part of a refused request is queued."""
        lane = self._lanes[role]
        if len(lane) + texts > self.places:
            self._lanes[role] = lane = deque(job for job in lane if job.is_wanted)
        if len(lane) + texts > self.places:
            raise OverloadedError(len(lane), self.places)

    def append_job(self, job: EmbeddingJob) -> None:
        self._lanes[job.key.role].append(job)

    def take_batch(self) -> list[EmbeddingJob]:
        """Return the next batch: of one lane, in order of arrival, within the model's limits; empty if idle.

        A text that alone exceeds the token budget gets a batch for itself.
        """
        documents_wait = self._has_wanted(TextRole.DOCUMENT)
        documents_first = documents_wait and self._queries_in_a_row >= _DOCUMENT_TURN
        if self._has_wanted(TextRole.QUERY) and not documents_first:
            self._queries_in_a_row = self._queries_in_a_row + 1 if documents_wait else 0
            return self._cut_batch(self._lanes[TextRole.QUERY])
        self._queries_in_a_row = 0
        return self._cut_batch(self._lanes[TextRole.DOCUMENT])

    def drain_jobs(self) -> Iterator[EmbeddingJob]:
        """Remove and yield every job that somebody waits for."""
        for lane in self._lanes.values():
            while lane:
                job = lane.popleft()
                if job.is_wanted:
                    job.taken = True
                    yield job

    def _has_wanted(self, role: TextRole) -> bool:
        """Drop abandoned jobs from the head of a lane. Return True if a job is left."""
        lane = self._lanes[role]
        while lane and not lane[0].is_wanted:
            lane.popleft()
        return bool(lane)

    def _cut_batch(self, lane: deque[EmbeddingJob]) -> list[EmbeddingJob]:
        batch: list[EmbeddingJob] = []
        total = longest = 0
        while lane and len(batch) < self.spec.batch_texts:
            job = lane[0]
            if job.is_wanted:
                total, longest = total + job.tokens, max(longest, job.tokens)
                cost = longest * (len(batch) + 1) if self.spec.padded else total
                if batch and cost > self.spec.batch_tokens:
                    break
                job.taken = True
                batch.append(job)
            lane.popleft()
        return batch
