"""A blocking model as one that is asked without blocking."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import DenseModel, EmbeddingModel, ModelSpec, Rows, estimated_tokens

_Made = TypeVar("_Made", None, Rows)


def threaded(model: DenseModel) -> EmbeddingModel:
    """The model in `spec.slots` worker threads of its own, which begin with `open`."""
    return _Threaded(model)


class _Threaded:
    """One hop to a thread and back for each call, except for short queries, which cost about as much as the hop.

    A thread that computes cannot be stopped: its result is dropped.
    """

    def __init__(self, model: DenseModel) -> None:
        self._model = model
        self._workers: ThreadPoolExecutor | None = None
        self._loading: asyncio.Future[None] | None = None
        self._waiting: set[asyncio.Future[None] | asyncio.Future[Rows]] = set()
        self._closed = False

    @property
    def spec(self) -> ModelSpec:
        return self._model.spec

    async def open(self) -> None:
        """Whoever opens while another does waits for the same load; one that failed is tried anew."""
        if self._closed:
            raise self._unavailable()
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._workers = self._workers or ThreadPoolExecutor(self.spec.slots, f"model-{self.spec.name}")
            self._loading = self._submit(self._workers, self._model.load)
        await asyncio.shield(self._loading)

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        if self._workers is None:
            raise self._unavailable()
        if (
            role is TextRole.QUERY
            and self._is_loaded()
            and sum(map(estimated_tokens, texts)) <= self.spec.inline_tokens
        ):
            return Rows(self._model.embed(texts, role))
        return await self._submit(self._workers, lambda: Rows(self._model.embed(texts, role)))

    async def close(self) -> None:
        self._closed = True
        workers, self._workers = self._workers, None
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(self._unavailable())
        if workers is not None:
            workers.shutdown(wait=False, cancel_futures=True)

    def _is_loaded(self) -> bool:
        loading = self._loading
        return loading is not None and loading.done() and loading.exception() is None

    def _submit(self, workers: ThreadPoolExecutor, work: Callable[[], _Made]) -> asyncio.Future[_Made]:
        """The answer is the loop's own future and no thread's, so that `close` can give it before the thread does."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Made] = loop.create_future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        answer.add_done_callback(_seen)

        def finished(done: Future[_Made]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_pass_on, done, answer)

        workers.submit(work).add_done_callback(finished)
        return answer

    def _unavailable(self) -> ModelUnavailableError:
        state = "was closed" if self._closed else "is not open"
        return ModelUnavailableError(f"model {self.spec.name} {state}; open it and ask again")


def _seen(answer: asyncio.Future[_Made]) -> None:
    """Whoever waited may be gone: asyncio would log an error that nobody came for."""
    if not answer.cancelled():
        answer.exception()


def _pass_on(done: Future[_Made], answer: asyncio.Future[_Made]) -> None:
    if answer.done():
        return
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    elif isinstance(error, StopIteration):  # a future cannot carry it
        answer.set_exception(RuntimeError(repr(error)))
    else:
        answer.set_exception(error)
