"""Adapter that runs a blocking model in worker threads."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import BlockingModel, EmbeddedRows, ModelSpec, estimate_tokens

_ResultT = TypeVar("_ResultT", None, EmbeddedRows)


class ThreadedModel:
    """Implementation of `AsyncModel`: runs a model in `spec.slots` worker threads, started by `open`.

    Each call is one hop to a thread and back. Short queries run in the event loop: they cost about as much as the hop.
    A computing thread cannot be stopped: its result is dropped.
    """

    def __init__(self, model: BlockingModel) -> None:
        self._model = model
        self._workers: ThreadPoolExecutor | None = None
        self._loading: asyncio.Future[None] | None = None
        self._waiting: set[asyncio.Future[None] | asyncio.Future[EmbeddedRows]] = set()
        self._closed = False

    @property
    def spec(self) -> ModelSpec:
        return self._model.spec

    async def open(self) -> None:
        """Load the model. Concurrent callers wait for the same load; a failed load is tried again."""
        if self._closed:
            raise self._build_unavailable()
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._workers = self._workers or ThreadPoolExecutor(self.spec.slots, f"model-{self.spec.name}")
            self._loading = self._submit(self._workers, self._model.load)
        await asyncio.shield(self._loading)

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        if self._workers is None:
            raise self._build_unavailable()
        loading = self._loading
        loaded = loading is not None and loading.done() and loading.exception() is None
        if loaded and role is TextRole.QUERY and sum(map(estimate_tokens, texts)) <= self.spec.inline_tokens:
            return EmbeddedRows(self._model.embed(texts, role))
        return await self._submit(self._workers, lambda: EmbeddedRows(self._model.embed(texts, role)))

    async def close(self) -> None:
        self._closed = True
        workers, self._workers = self._workers, None
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(self._build_unavailable())
        if workers is not None:
            workers.shutdown(wait=False, cancel_futures=True)

    def _submit(self, workers: ThreadPoolExecutor, work: Callable[[], _ResultT]) -> asyncio.Future[_ResultT]:
        """Run `work` in a thread. The future is the loop's, so that `close` can settle it before the thread does."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_ResultT] = loop.create_future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        answer.add_done_callback(_retrieve_exception)

        def pass_result(done: Future[_ResultT]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_settle_answer, done, answer)

        workers.submit(work).add_done_callback(pass_result)
        return answer

    def _build_unavailable(self) -> ModelUnavailableError:
        state = "was closed" if self._closed else "is not open"
        return ModelUnavailableError(f"model {self.spec.name} {state}; try again")


def _retrieve_exception(answer: asyncio.Future[_ResultT]) -> None:
    """Mark the exception as retrieved: the caller may be gone, and asyncio would log it."""
    if not answer.cancelled():
        answer.exception()


def _settle_answer(done: Future[_ResultT], answer: asyncio.Future[_ResultT]) -> None:
    if answer.done():
        return
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    elif isinstance(error, StopIteration):  # a future cannot carry it
        answer.set_exception(RuntimeError(repr(error)))
    else:
        answer.set_exception(error)
