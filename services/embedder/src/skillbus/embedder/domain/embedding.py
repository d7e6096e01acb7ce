"""The embedder's one entry: texts in, dense and sparse vectors out, and the truth about what could not be had."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder import Role
from skillbus.embedder.domain.batching import Batcher
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.lanes import LaneLimits, Priority
from skillbus.embedder.domain.lexical import LexicalEncoder, SparseVector
from skillbus.embedder.domain.model import DenseModel, ModelSpec

_INLINE_CHARS = 2048  # of text for the lexical encoder, about a millisecond; more goes to a thread


@dataclass(frozen=True, slots=True)
class Timings:
    """Of the slowest text of a request; `cached` counts texts whose dense vector was there."""

    queue_ms: float = 0.0
    inference_ms: float = 0.0
    cached: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """In the order of the texts. `dense` has shape (n, dim) and rows of length 1."""

    dense: NDArray[np.float32] | None
    sparse: tuple[SparseVector, ...] | None
    model: ModelSpec | None
    """Whose dense vectors these are; None without dense vectors."""
    timings: Timings
    degraded: str | None
    """Why there are no dense vectors although they were asked for: the sparse ones have to do."""


class EmbeddingService:
    """An async context manager: entering starts to load the model in a thread and does not wait for it."""

    def __init__(self, model: DenseModel, limits: LaneLimits, lexical: LexicalEncoder, *, slots: int = 1) -> None:
        self._model = model
        self._batcher = Batcher(model, limits, slots=slots)
        self._lexical = lexical
        self._resources = AsyncExitStack()
        self._loading: asyncio.Task[str | None] | None = None

    async def __aenter__(self) -> Self:
        await self._resources.enter_async_context(self._batcher)
        self._loading = asyncio.create_task(self._load(), name="embedding-model-load")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})
        await self._resources.aclose()

    @property
    def spec(self) -> ModelSpec:
        return self._model.spec

    async def unavailable(self, wait_s: float | None = None) -> str | None:
        """Why there are no dense vectors, None when there are; waits at most `wait_s` (None: for ever) for the load."""
        if self._loading is None:
            return "the embedder is not started"
        await asyncio.wait({self._loading}, timeout=wait_s)
        if not self._loading.done():
            return f"model {self.spec.name} is still loading"
        return "the embedder is shutting down" if self._loading.cancelled() else self._loading.result()

    async def embed(
        self,
        texts: Sequence[str],
        role: Role,
        priority: Priority,
        *,
        want_dense: bool = True,
        want_sparse: bool = False,
        load_wait_s: float | None = None,
    ) -> Embedded:
        """Embed texts; a model that is not there leaves the sparse vectors and a reason, if sparse ones are wanted.

        Raises:
            ModelUnavailableError: only dense vectors are wanted and there is no model.
            OverloadedError, TextNotEmbeddableError, EmbedderClosedError: see `Batcher.embed`.
        """
        sparse = await self._encode(texts, role) if want_sparse else None
        if not want_dense:
            return Embedded(None, sparse, None, Timings(), None)
        degraded = await self.unavailable(load_wait_s)
        if degraded is not None:
            return self._without_dense(sparse, degraded)
        batched = await self._batcher.embed(texts, role, priority)
        timings = Timings(batched.queue_ms, batched.inference_ms, batched.cached)
        return Embedded(batched.rows, sparse, self.spec, timings, None)

    def _without_dense(self, sparse: tuple[SparseVector, ...] | None, reason: str) -> Embedded:
        if sparse is None:
            raise ModelUnavailableError(reason)
        structlog.get_logger().warning("embedding_degraded", degraded="lexical", model=self.spec.name, reason=reason)
        return Embedded(None, sparse, None, Timings(), reason)

    async def _encode(self, texts: Sequence[str], role: Role) -> tuple[SparseVector, ...]:
        encode = self._lexical.encode_query if role is Role.QUERY else self._lexical.encode_document
        if sum(map(len, texts)) <= _INLINE_CHARS:
            return tuple(map(encode, texts))
        return await asyncio.to_thread(lambda: tuple(map(encode, texts)))

    async def _load(self) -> str | None:
        """None once the model is ready, else the reason it never will be."""
        log = structlog.get_logger().bind(model=self.spec.name, fingerprint=self.spec.fingerprint)
        started = time.perf_counter()
        try:
            await asyncio.to_thread(self._model.load)
        except Exception as error:  # a loader's own errors are of any class; callers get it as the reason
            log.warning("embedding_model_unavailable", degraded="lexical", exc_info=error)
            return str(error) or repr(error)
        log.info("embedding_model_ready", load_ms=(time.perf_counter() - started) * 1e3)
        return None
