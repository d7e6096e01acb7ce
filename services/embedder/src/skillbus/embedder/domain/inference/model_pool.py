"""The models that are open: opened once, when first asked for, and closed when they are no longer registered so."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import structlog

from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError
from skillbus.embedder.domain.inference.batcher import Batcher
from skillbus.embedder.domain.inference.lanes import LaneLimits
from skillbus.embedder.domain.inference.vector_cache import VectorCache
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec
from skillbus.embedder.domain.registry.snapshot import RegisteredModel

_RETRY_S: Final = 30.0
"""How long a model that could not be opened is not tried again."""

_REPLACED_S: Final = 30.0
"""How long a model that was changed in the registry still answers what it was asked before."""
_END_S: Final = 5.0

MakeModel = Callable[[RegisteredModel], EmbeddingModel]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Key:
    """What an open model was made from. Being the default, its priority and its calibration are no part of that."""

    model: str
    spec: ModelSpec
    provider_version: int
    api_path: str | None
    request_dimensions: bool
    path: str | None

    @classmethod
    def of(cls, registered: RegisteredModel, spec: ModelSpec) -> Self:
        model = registered.model
        version = registered.provider.version
        return cls(model.id, spec, version, model.api_path, model.request_dimensions, model.path)


class _OpenModel:
    """A model and its batcher, from the moment that it begins to be opened."""

    def __init__(
        self, registered: RegisteredModel, make: MakeModel, cache: VectorCache, queued: int, clock: Clock
    ) -> None:
        self.name = registered.model.name
        self._clock = clock
        self._make = make
        self._cache = cache
        self._queued = queued
        self._resources = AsyncExitStack()
        self._failed_at: float | None = None
        self.opening = asyncio.create_task(self._opened(registered), name=f"open-{self.name}")

    @property
    def worth_trying_again(self) -> bool:
        return self._failed_at is not None and self._clock() - self._failed_at >= _RETRY_S

    async def _opened(self, registered: RegisteredModel) -> Batcher | ModelUnavailableError:
        log = structlog.get_logger().bind(provider=registered.provider.name, model=self.name)
        started = time.perf_counter()
        try:
            model = self._make(registered)
            self._resources.push_async_callback(model.close)
            await model.open()
        except Exception as error:  # a model's own errors are of any class; callers get them as the reason
            self._failed_at = self._clock()
            log.warning("embedding_model_unavailable", exc_info=error)
            await self._resources.aclose()
            return (
                error if isinstance(error, ModelUnavailableError) else ModelUnavailableError(str(error) or repr(error))
            )
        took_ms = (time.perf_counter() - started) * 1e3
        log.info("embedding_model_ready", fingerprint=model.spec.fingerprint, load_ms=round(took_ms, 1))
        limits = LaneLimits(
            model.spec.batch_tokens, model.spec.batch_texts, padded=model.spec.padded, queued=self._queued
        )
        return await self._resources.enter_async_context(Batcher(model, limits, self._cache))

    async def close(self, within_s: float) -> None:
        """Let those who wait be answered, at most so long, then let go of the model."""
        if not self.opening.done():
            self.opening.cancel()
            await asyncio.wait({self.opening})
        if not self.opening.cancelled() and isinstance(batcher := self.opening.result(), Batcher):
            await batcher.finish(within_s)
        await self._resources.aclose()


class ModelPool:
    """Use as an async context manager; leaving it closes every model."""

    def __init__(self, make: MakeModel, cache: VectorCache, *, queued: int, clock: Clock = time.monotonic) -> None:
        """`queued`: texts that may wait in each lane of each model."""
        self._make = make
        self._cache = cache
        self._queued = queued
        self._clock = clock
        self._open: dict[_Key, _OpenModel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._retire(list(self._open), _END_S)
        if self._closing:
            await asyncio.wait(self._closing)

    async def batcher(self, registered: RegisteredModel, wait_s: float | None = None) -> Batcher:
        """The batcher of a model, which is opened first if it is not open.

        Args:
            registered: Which model.
            wait_s: How long to wait for it to be opened, in seconds; for ever if None. It is opened all the same.

        Raises:
            ModelUnavailableError: it cannot be opened, or not within `wait_s`.
            EmbedderClosedError: the pool was closed.
        """
        if self._closed:
            raise EmbedderClosedError
        spec = registered.spec
        if spec is None:
            raise ModelUnavailableError(registered.problem or f"the dimensions of {registered.model.name} are unknown")
        entry = self._entry(_Key.of(registered, spec), registered)
        if not entry.opening.done():
            await asyncio.wait({entry.opening}, timeout=wait_s)
        if not entry.opening.done():
            raise ModelUnavailableError(f"model {entry.name} is still loading")
        if entry.opening.cancelled():
            raise EmbedderClosedError
        opened = entry.opening.result()
        if isinstance(opened, ModelUnavailableError):
            raise ModelUnavailableError(str(opened)) from opened
        return opened

    def keep(self, registered: Iterable[RegisteredModel]) -> None:
        """Close all others, once what they are computing is answered."""
        kept = {_Key.of(model, model.spec) for model in registered if model.spec is not None}
        self._retire([key for key in self._open if key not in kept], _REPLACED_S)

    def _entry(self, key: _Key, registered: RegisteredModel) -> _OpenModel:
        entry = self._open.get(key)
        if entry is None or entry.worth_trying_again:
            self._open[key] = entry = _OpenModel(registered, self._make, self._cache, self._queued, self._clock)
        return entry

    def _retire(self, keys: Iterable[_Key], within_s: float) -> None:
        for key in keys:
            task = asyncio.create_task(self._open.pop(key).close(within_s))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
