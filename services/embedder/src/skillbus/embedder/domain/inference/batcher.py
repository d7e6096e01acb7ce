"""Batcher: combines the texts of many callers into batches for one model.

There is no timer: a batch holds the texts that wait when a slot of the model becomes free (as in
text-embeddings-inference). A lone query waits for nothing, and a crowd fills its batches by itself. Cache and
singleflight come before the queue: a text that is being embedded is not queued again. One task owns the queue; the
model works on `spec.slots` batches.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import structlog
from cachetools import LRUCache
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError, TextNotEmbeddableError
from skillbus.embedder.domain.inference.lanes import EmbeddingJob, JobOutcome, Lanes, VectorKey
from skillbus.embedder.domain.model import AsyncModel, check_rows, estimate_tokens
from skillbus.relevance.text_normalization import normalise_text


@dataclass(frozen=True, slots=True)
class BatchedRows:
    """Vectors of one request, shape (n, dim)."""

    rows: NDArray[np.float32]
    tokens: int
    """Tokens of all texts: as the provider counted them, or an estimate."""


class VectorCache:
    """LRU cache with separate places for each role, so that indexing does not evict queries.

    A place costs the vector (2 kB at 512 dimensions) and the text.
    """

    def __init__(self, places_per_role: int = 8192) -> None:
        self._rows: Mapping[TextRole, LRUCache[VectorKey, NDArray[np.float32]]] = {
            role: LRUCache(places_per_role) for role in TextRole
        }

    def find_row(self, key: VectorKey) -> NDArray[np.float32] | None:
        return self._rows[key.role].get(key)

    def store_row(self, key: VectorKey, row: NDArray[np.float32]) -> None:
        self._rows[key.role][key] = row


class Batcher:
    """Async context manager around an open model. The caller that opened the model closes it."""

    def __init__(self, model: AsyncModel, cache: VectorCache, places: int = 4096) -> None:
        """Batch for `model`, with `places` in each lane. The batchers of several models may share `cache`."""
        self._model = model
        self._spec = model.spec
        self._fingerprint = model.spec.fingerprint
        self._lanes = Lanes(model.spec, places)
        self._cache = cache
        self._in_flight: dict[VectorKey, EmbeddingJob] = {}
        self._running: set[EmbeddingJob] = set()
        self._work = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._owner = asyncio.create_task(self._own_queue(), name="embedding-batcher")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def embed_texts(self, texts: Sequence[str], role: TextRole) -> BatchedRows:
        """Embed texts, in their order.

        Raises:
            OverloadedError: the queue is full; no text of this request was queued.
            TextNotEmbeddableError: the model fails on a text of this request.
            ModelUnavailableError: the model cannot be used now.
            EmbedderClosedError: the batcher was closed before or while this request waited.
        """
        if self._closed:
            raise EmbedderClosedError
        keys = [VectorKey(self._fingerprint, role, normalise_text(text, self._spec.max_chars)) for text in texts]
        rows = {key: row for key in keys if (row := self._cache.find_row(key)) is not None}
        outcomes: dict[VectorKey, JobOutcome] = {}
        if missing := [key for key in dict.fromkeys(keys) if key not in rows]:
            outcomes = await self._await_jobs(self._enqueue_jobs(missing, role))
        for index, key in enumerate(keys):
            if key not in rows:
                rows[key] = _get_vector(outcomes[key], index)
        return BatchedRows(
            rows=np.array([rows[key] for key in keys], np.float32).reshape(len(keys), self._spec.dim),
            tokens=round(sum(outcomes[key].tokens if key in outcomes else estimate_tokens(key.text) for key in keys)),
        )

    async def finish(self, within_s: float) -> None:
        """Answer everyone who waits, for at most `within_s`, then close."""
        try:
            async with asyncio.timeout(within_s):
                while self._in_flight:
                    await asyncio.wait({job.outcome for job in self._in_flight.values()})
        except TimeoutError:
            structlog.get_logger().warning(
                "embedding_queue_abandoned", model=self._spec.name, texts=len(self._in_flight)
            )
        await self.close()

    async def close(self, grace_s: float = 5.0) -> None:
        """Refuse queued jobs at once, and wait for running ones for at most `grace_s`."""
        self._closed = True
        self._refuse_jobs(self._lanes.drain_jobs())
        if self._running:
            await asyncio.wait({job.outcome for job in self._running}, timeout=grace_s)
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait({self._owner})

    def _enqueue_jobs(self, keys: list[VectorKey], role: TextRole) -> dict[VectorKey, EmbeddingJob]:
        """Return a job for each key: the one in flight, or a new one in the queue."""
        new = [key for key in keys if key not in self._in_flight]
        self._lanes.check_places(len(new), role)
        for key in new:
            outcome = asyncio.get_running_loop().create_future()
            self._in_flight[key] = job = EmbeddingJob(key, estimate_tokens(key.text), outcome)
            self._lanes.append_job(job)
        jobs = {key: self._in_flight[key] for key in keys}
        for job in jobs.values():
            job.waiters += 1
        self._work.set()
        return jobs

    async def _await_jobs(self, jobs: dict[VectorKey, EmbeddingJob]) -> dict[VectorKey, JobOutcome]:
        """Wait without cancelling jobs of other callers. A queued job that its last caller leaves is not computed."""
        try:
            for job in jobs.values():
                await asyncio.shield(job.outcome)
        finally:
            for key, job in jobs.items():
                job.waiters -= 1
                if job.waiters == 0 and not job.taken:
                    del self._in_flight[key]
        return {key: job.outcome.result() for key, job in jobs.items()}

    async def _own_queue(self) -> None:
        free = asyncio.Semaphore(self._spec.slots)
        try:
            async with asyncio.TaskGroup() as running:
                while True:
                    await free.acquire()
                    while not (batch := self._lanes.take_batch()):
                        self._work.clear()
                        await self._work.wait()
                    running.create_task(self._serve_batch(batch, free))
        finally:
            self._closed = True
            self._refuse_jobs(self._lanes.drain_jobs())

    async def _serve_batch(self, batch: list[EmbeddingJob], free: asyncio.Semaphore) -> None:
        self._running.update(batch)
        try:
            outcomes = await run_batch(self._model, [job.key.text for job in batch], batch[0].key.role)
            for job, outcome in zip(batch, outcomes, strict=True):
                self._settle_job(job, outcome)
        finally:
            self._refuse_jobs(batch)
            self._running.difference_update(batch)
            free.release()

    def _settle_job(self, job: EmbeddingJob, outcome: JobOutcome) -> None:
        """Record the outcome of a job. The first outcome counts."""
        if job.outcome.done():
            return
        job.outcome.set_result(outcome)
        del self._in_flight[job.key]
        if outcome.vector is not None:
            self._cache.store_row(job.key, outcome.vector)

    def _refuse_jobs(self, jobs: Iterable[EmbeddingJob]) -> None:
        for job in jobs:
            self._settle_job(job, JobOutcome(None, EmbedderClosedError()))


async def run_batch(
    model: AsyncModel, texts: Sequence[str], role: TextRole, *, halved: bool = False
) -> list[JobOutcome]:
    """Embed a batch and return one outcome per text. Errors of the model are outcomes, never raised.

    A failing batch is halved until the texts at fault are alone: 2·log2(n) calls for one bad text among n. If the model
    itself is unavailable, no text is at fault and none is tried again. The traceback is logged for the whole batch, and
    not again for its halves (`halved`).
    """
    started = time.perf_counter()
    try:
        embedded = await model.embed(texts, role)
        rows = check_rows(embedded.rows, len(texts), model.spec.dim)
        estimates = [float(estimate_tokens(text)) for text in texts]
        share = 1.0 if embedded.tokens is None else embedded.tokens / sum(estimates)
    except ModelUnavailableError as error:
        return [JobOutcome(None, error)] * len(texts)
    except Exception as error:  # noqa: BLE001 - models raise errors of any class
        structlog.get_logger().warning(
            "embedding_batch_failed",
            batch_texts=len(texts),
            model=model.spec.name,
            inference_ms=(time.perf_counter() - started) * 1e3,
            error=repr(error),
            exc_info=None if halved else error,
        )
        if len(texts) == 1:
            return [JobOutcome(None, error)]
        middle = len(texts) // 2
        first = await run_batch(model, texts[:middle], role, halved=True)
        return first + await run_batch(model, texts[middle:], role, halved=True)
    outcomes = []
    for row, estimate in zip(rows, estimates, strict=True):
        vector = row.copy()  # a view would keep its whole batch in memory as long as the cache keeps the row
        vector.setflags(write=False)
        outcomes.append(JobOutcome(vector, None, estimate * share))
    return outcomes


def _get_vector(outcome: JobOutcome, text_index: int) -> NDArray[np.float32]:
    """Return the vector, or raise the failure with the text's index in the request."""
    if outcome.vector is not None:
        return outcome.vector
    if isinstance(outcome.failure, EmbedderClosedError):
        raise EmbedderClosedError
    if isinstance(outcome.failure, ModelUnavailableError):
        raise ModelUnavailableError(str(outcome.failure)) from outcome.failure
    raise TextNotEmbeddableError(text_index, repr(outcome.failure)) from outcome.failure
