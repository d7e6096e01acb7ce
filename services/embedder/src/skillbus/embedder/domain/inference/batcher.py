"""Batches what many callers ask of one model.

No timer: a batch is whatever waits when a slot of the model frees (as text-embeddings-inference does), so that a lone
query waits for nothing and a crowd fills its batches by itself. Before the queue come the cache and singleflight: a
text that is being embedded is not queued again. One task owns the queue; the model works on `spec.slots` batches.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError, TextNotEmbeddableError
from skillbus.embedder.domain.inference.batch import infer
from skillbus.embedder.domain.inference.lanes import Job, JobDone, LaneLimits, Lanes, Priority
from skillbus.embedder.domain.inference.vector_cache import CacheKey, VectorCache
from skillbus.embedder.domain.model import EmbeddingModel, estimated_tokens
from skillbus.relevance.text import normalise_text


@dataclass(frozen=True, slots=True)
class Batched:
    """Vectors of one request, shape (n, dim), and where their time went."""

    rows: NDArray[np.float32]
    queue_ms: float
    """Of the text that waited longest; 0 if all were cached."""
    inference_ms: float
    """Of the slowest batch that a text was in; 0 if all were cached."""
    cached: int
    """Texts whose vector was there."""
    tokens: int
    """Of all texts: as the provider counted them, or an estimate."""


class Batcher:
    """Use as an async context manager around an open model, which stays its opener's to close."""

    def __init__(self, model: EmbeddingModel, limits: LaneLimits, cache: VectorCache) -> None:
        """`cache` may be shared by the batchers of several models."""
        self._model = model
        self._spec = model.spec
        self._fingerprint = model.spec.fingerprint
        self._lanes = Lanes(limits)
        self._cache = cache
        self._flying: dict[CacheKey, Job] = {}
        self._running: set[Job] = set()
        self._work = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._owner = asyncio.create_task(self._own_queue(), name="embedding-batcher")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def embed(self, texts: Sequence[str], role: TextRole, priority: Priority) -> Batched:
        """The vectors of `texts`, in their order.

        Raises:
            OverloadedError: too much is queued; nothing of this request is.
            TextNotEmbeddableError: the model fails on a text of this request, whatever batch it is in.
            ModelUnavailableError: the model cannot be had now.
            EmbedderClosedError: the batcher was closed before or while this request waited.
        """
        if self._closed:
            raise EmbedderClosedError
        keys = [CacheKey(self._fingerprint, role, normalise_text(text, self._spec.max_chars)) for text in texts]
        rows = {key: row for key in keys if (row := self._cache.get(key)) is not None}
        cached = sum(key in rows for key in keys)
        done: dict[CacheKey, JobDone] = {}
        if cached < len(keys):
            done = await self._wait_for(self._jobs([key for key in dict.fromkeys(keys) if key not in rows], priority))
        for index, key in enumerate(keys):
            if key not in rows:
                rows[key] = _vector_of(done[key], index)
        return Batched(
            rows=np.array([rows[key] for key in keys], np.float32).reshape(len(keys), self._spec.dim),
            queue_ms=max((outcome.queue_ms for outcome in done.values()), default=0.0),
            inference_ms=max((outcome.inference_ms for outcome in done.values()), default=0.0),
            cached=cached,
            tokens=round(sum(done[key].tokens if key in done else estimated_tokens(key.text) for key in keys)),
        )

    async def finish(self, within_s: float) -> None:
        """Answer everyone who asks and still waits, as long as that takes no more than `within_s`; then close."""
        try:
            async with asyncio.timeout(within_s):
                while self._flying:
                    await asyncio.wait({job.outcome for job in self._flying.values()})
        except TimeoutError:
            structlog.get_logger().warning("embedding_queue_abandoned", model=self._spec.name, texts=len(self._flying))
        await self.close()

    async def close(self, grace_s: float = 5.0) -> None:
        """Answers everyone: at once who still queues, within `grace_s` who is being computed."""
        self._closed = True
        self._answer_closed(self._lanes.drain())
        if self._running:
            await asyncio.wait({job.outcome for job in self._running}, timeout=grace_s)
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait({self._owner})

    def _jobs(self, keys: list[CacheKey], priority: Priority) -> dict[CacheKey, Job]:
        """A job for each key: the one in flight, else a new one in the queue."""
        new = [key for key in keys if key not in self._flying]
        self._lanes.reserve(len(new), priority)
        for key in new:
            self._flying[key] = job = self._new_job(key, priority)
            self._lanes.append(job)
        jobs = {key: self._flying[key] for key in keys}
        for job in jobs.values():
            job.waiters += 1
            if priority is Priority.QUERY:
                self._lanes.promote(job)
        self._work.set()
        return jobs

    def _new_job(self, key: CacheKey, priority: Priority) -> Job:
        outcome = asyncio.get_running_loop().create_future()
        return Job(key, estimated_tokens(key.text), priority, outcome, queued_at=time.perf_counter())

    async def _wait_for(self, jobs: dict[CacheKey, Job]) -> dict[CacheKey, JobDone]:
        """Waits without cancelling what others wait for too; a job that its last caller leaves is not computed."""
        try:
            for job in jobs.values():
                await asyncio.shield(job.outcome)
        finally:
            for key, job in jobs.items():
                job.waiters -= 1
                if job.waiters == 0 and not job.taken:
                    del self._flying[key]
        return {key: job.outcome.result() for key, job in jobs.items()}

    async def _own_queue(self) -> None:
        free = asyncio.Semaphore(self._spec.slots)
        try:
            async with asyncio.TaskGroup() as running:
                while True:
                    await free.acquire()
                    batch = await self._next_batch()
                    running.create_task(self._serve(batch, free))
        finally:
            self._closed = True
            self._answer_closed(self._lanes.drain())

    async def _next_batch(self) -> list[Job]:
        while not (batch := self._lanes.take()):
            self._work.clear()
            await self._work.wait()
        return batch

    async def _serve(self, batch: list[Job], free: asyncio.Semaphore) -> None:
        self._running.update(batch)
        taken_at = time.perf_counter()
        texts = [job.key.text for job in batch]
        try:
            outcomes = await infer(self._model, texts, batch[0].key.role)
            for job, outcome in zip(batch, outcomes, strict=True):
                queue_ms = (taken_at - job.queued_at) * 1e3
                self._settle(job, JobDone(outcome.row, outcome.error, queue_ms, outcome.inference_ms, outcome.tokens))
        finally:
            self._answer_closed(batch)
            self._running.difference_update(batch)
            free.release()

    def _settle(self, job: Job, done: JobDone) -> None:
        """The first answer counts."""
        if job.outcome.done():
            return
        job.outcome.set_result(done)
        del self._flying[job.key]
        if done.vector is not None:
            self._cache.put(job.key, done.vector)

    def _answer_closed(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._settle(job, JobDone(None, EmbedderClosedError(), 0.0, 0.0))


def _vector_of(done: JobDone, text_index: int) -> NDArray[np.float32]:
    if done.vector is not None:
        return done.vector
    if isinstance(done.failure, EmbedderClosedError):
        raise EmbedderClosedError
    if isinstance(done.failure, ModelUnavailableError):
        raise ModelUnavailableError(str(done.failure)) from done.failure
    raise TextNotEmbeddableError(text_index, repr(done.failure)) from done.failure
