"""Pool of open models: opened once, on first use, and closed when their registration changes."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self

import structlog

from skillbus.embedder.domain.errors import EmbedderClosedError, ModelUnavailableError
from skillbus.embedder.domain.inference.batcher import Batcher, VectorCache
from skillbus.embedder.domain.model import AsyncModel, ModelSpec
from skillbus.embedder.domain.registry.snapshot import RegisteredModel

_RETRY_S: Final = 30.0
"""Pause before a model that failed to open is tried again."""

_REPLACED_S: Final = 30.0
"""Time that a replaced model has to answer the requests it already accepted."""
_END_S: Final = 5.0

BuildModel = Callable[[RegisteredModel], AsyncModel]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _ModelKey:
    """Everything an open model depends on. The default flag, priority and calibration are not part of it."""

    model: str
    spec: ModelSpec
    provider_version: int
    api_path: str | None
    request_dimensions: bool
    path: str | None

    @classmethod
    def build(cls, registered: RegisteredModel, spec: ModelSpec) -> Self:
        model = registered.model
        version = registered.provider.version
        return cls(model.id, spec, version, model.api_path, model.request_dimensions, model.path)


class _OpenModel:
    """A model and its batcher, from the moment it starts to open."""

    def __init__(
        self, registered: RegisteredModel, build: BuildModel, cache: VectorCache, queued: int, clock: Clock
    ) -> None:
        self.name = registered.model.name
        self._clock = clock
        self._build = build
        self._cache = cache
        self._queued = queued
        self._resources = AsyncExitStack()
        self._failed_at: float | None = None
        self.opening = asyncio.create_task(self._open(registered), name=f"open-{self.name}")

    @property
    def may_be_retried(self) -> bool:
        return self._failed_at is not None and self._clock() - self._failed_at >= _RETRY_S

    async def _open(self, registered: RegisteredModel) -> Batcher | ModelUnavailableError:
        log = structlog.get_logger().bind(provider=registered.provider.name, model=self.name)
        started = time.perf_counter()
        try:
            model = self._build(registered)
            self._resources.push_async_callback(model.close)
            await model.open()
        except Exception as error:  # models raise errors of any class; callers get them as the reason
            self._failed_at = self._clock()
            log.warning("embedding_model_unavailable", exc_info=error)
            await self._resources.aclose()
            return (
                error if isinstance(error, ModelUnavailableError) else ModelUnavailableError(str(error) or repr(error))
            )
        load_ms = round((time.perf_counter() - started) * 1e3, 1)
        log.info("embedding_model_ready", fingerprint=model.spec.fingerprint, load_ms=load_ms)
        return await self._resources.enter_async_context(Batcher(model, self._cache, self._queued))

    async def close(self, within_s: float) -> None:
        """Answer waiting requests for at most `within_s`, then release the model."""
        if not self.opening.done():
            self.opening.cancel()
            await asyncio.wait({self.opening})
        if not self.opening.cancelled() and isinstance(batcher := self.opening.result(), Batcher):
            await batcher.finish(within_s)
        await self._resources.aclose()


class ModelPool:
    """Async context manager; leaving it closes every model."""

    def __init__(self, build: BuildModel, cache: VectorCache, *, queued: int, clock: Clock = time.monotonic) -> None:
        """Open models with `build`. `queued` texts may wait in each lane of each model."""
        self._build = build
        self._cache = cache
        self._queued = queued
        self._clock = clock
        self._open: dict[_ModelKey, _OpenModel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._retire_models(list(self._open), _END_S)
        if self._closing:
            await asyncio.wait(self._closing)

    async def open_batcher(self, registered: RegisteredModel, wait_s: float | None = None) -> Batcher:
        """Return the batcher of a model. Open the model first if necessary; that continues after `wait_s`.

        Raises:
            ModelUnavailableError: the model cannot be opened, or not within `wait_s`; None sets no limit.
            EmbedderClosedError: the pool was closed.
        """
        if self._closed:
            raise EmbedderClosedError
        spec = registered.spec
        if spec is None:
            raise ModelUnavailableError(registered.problem or f"the dimensions of {registered.model.name} are unknown")
        key = _ModelKey.build(registered, spec)
        entry = self._open.get(key)
        if entry is None or entry.may_be_retried:
            self._open[key] = entry = _OpenModel(registered, self._build, self._cache, self._queued, self._clock)
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

    def retain_models(self, registered: Iterable[RegisteredModel]) -> None:
        """Close all models except these, after they answered what they accepted."""
        kept = {_ModelKey.build(model, model.spec) for model in registered if model.spec is not None}
        self._retire_models([key for key in self._open if key not in kept], _REPLACED_S)

    def _retire_models(self, keys: Iterable[_ModelKey], within_s: float) -> None:
        for key in keys:
            task = asyncio.create_task(self._open.pop(key).close(within_s))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
