"""A blocking model in threads."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.threaded import ThreadedModel
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import AsyncModel, ModelSpec

from .fakes import WAIT_S, vector_of


class Blocking:
    """Notes the threads it is called in. Calls wait while `gate` is closed."""

    def __init__(self, slots: int = 1) -> None:
        self.spec = ModelSpec("local", "slow", "1", "nfkc", 8, 100, 100, padded=False, slots=slots)
        self.loads = 0
        self.load_errors: list[Exception] = []
        self.error: Exception | None = None
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def load(self) -> None:
        self.loads += 1
        self._pass()
        if self.load_errors:
            raise self.load_errors.pop()

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        self.threads.add(threading.get_ident())
        self._pass()
        if self.error is not None:
            raise self.error
        return np.stack([vector_of(text) for text in texts])

    def _pass(self) -> None:
        self.entered.release()
        assert self.gate.wait(WAIT_S), "the test never opened the gate"


@pytest.fixture
async def slow() -> AsyncIterator[tuple[Blocking, AsyncModel]]:
    blocking = Blocking()
    model = ThreadedModel(blocking)
    async with asyncio.timeout(WAIT_S):
        yield blocking, model
    blocking.gate.set()
    await model.close()


async def test_the_loop_goes_on_while_a_model_computes(slow: tuple[Blocking, AsyncModel]) -> None:
    blocking, model = slow
    await model.open()
    blocking.gate.clear()
    asked = asyncio.create_task(model.embed(["a", "b"], TextRole.QUERY))
    await asyncio.to_thread(blocking.entered.acquire)
    assert not asked.done()
    blocking.gate.set()
    assert np.array_equal((await asked).rows, np.stack([vector_of("a"), vector_of("b")]))
    assert threading.get_ident() not in blocking.threads


async def test_it_is_loaded_once_for_all_who_open_it(slow: tuple[Blocking, AsyncModel]) -> None:
    blocking, model = slow
    await asyncio.gather(*(model.open() for _ in range(5)))
    await model.open()
    assert blocking.loads == 1


async def test_a_load_goes_on_for_the_others_when_one_gives_up(slow: tuple[Blocking, AsyncModel]) -> None:
    blocking, model = slow
    blocking.gate.clear()
    first, second = asyncio.create_task(model.open()), asyncio.create_task(model.open())
    await asyncio.to_thread(blocking.entered.acquire)
    first.cancel()
    blocking.gate.set()
    await second
    assert blocking.loads == 1


async def test_a_load_that_failed_is_tried_anew_when_it_is_opened_again(slow: tuple[Blocking, AsyncModel]) -> None:
    blocking, model = slow
    blocking.load_errors = [ModelUnavailableError("no weights")]
    with pytest.raises(ModelUnavailableError, match="no weights"):
        await model.open()
    await model.open()
    assert (await model.embed(["a"], TextRole.QUERY)).rows.shape == (1, 8)


@pytest.mark.parametrize("error", [RuntimeError("poisoned"), StopIteration()])
async def test_a_models_own_error_reaches_who_asked(slow: tuple[Blocking, AsyncModel], error: Exception) -> None:
    blocking, model = slow
    await model.open()
    blocking.error = error
    with pytest.raises(RuntimeError):
        await model.embed(["a"], TextRole.QUERY)


async def test_as_many_calls_run_at_the_same_time_as_there_are_slots() -> None:
    blocking = Blocking(slots=2)
    model = ThreadedModel(blocking)
    async with asyncio.timeout(WAIT_S):
        await model.open()
        assert blocking.entered.acquire(timeout=WAIT_S)
        blocking.gate.clear()
        asked = [asyncio.create_task(model.embed([text], TextRole.QUERY)) for text in "abc"]
        for _ in range(2):
            await asyncio.to_thread(blocking.entered.acquire)
        assert len(blocking.threads) == 2
        assert not blocking.entered.acquire(blocking=False)
        blocking.gate.set()
        await asyncio.gather(*asked)
    await model.close()


async def test_closing_answers_who_waits_and_who_is_computed_at_once(slow: tuple[Blocking, AsyncModel]) -> None:
    blocking, model = slow
    await model.open()
    blocking.gate.clear()
    asked = [asyncio.create_task(model.embed([text], TextRole.QUERY)) for text in "ab"]
    await asyncio.to_thread(blocking.entered.acquire)
    await model.close()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ModelUnavailableError] * 2
    await model.close()


async def test_a_load_that_nobody_waits_for_any_more_leaves_no_error_behind() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    blocking = Blocking()
    blocking.gate.clear()
    model = ThreadedModel(blocking)
    opening = asyncio.create_task(model.open())
    await asyncio.to_thread(blocking.entered.acquire, timeout=WAIT_S)
    opening.cancel()
    await asyncio.wait({opening})
    await model.close()
    blocking.gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("model-slow"):
            await asyncio.to_thread(thread.join, WAIT_S)
    del opening, model
    await asyncio.sleep(0)  # the loop lets go of what the thread gave it
    gc.collect()
    assert reported == []


async def test_a_model_that_is_not_open_says_so(slow: tuple[Blocking, AsyncModel]) -> None:
    _, model = slow
    with pytest.raises(ModelUnavailableError, match="not open"):
        await model.embed(["a"], TextRole.QUERY)
    await model.close()
    with pytest.raises(ModelUnavailableError, match="closed"):
        await model.open()


@pytest.mark.parametrize(
    ("texts", "role", "in_the_loop"),
    [
        (["short"], TextRole.QUERY, True),
        (["short", "too"], TextRole.QUERY, True),
        (["short"] * 3, TextRole.QUERY, False),
        (["long" * 9], TextRole.QUERY, False),
        (["short"], TextRole.DOCUMENT, False),
    ],
)
async def test_short_queries_are_computed_without_a_thread_where_the_model_says_so(
    texts: list[str], role: TextRole, in_the_loop: bool
) -> None:
    blocking = Blocking()
    blocking.spec = replace(blocking.spec, inline_tokens=8)
    model = ThreadedModel(blocking)
    try:
        await model.open()
        await model.embed(texts, role)
        assert (blocking.threads == {threading.get_ident()}) is in_the_loop
    finally:
        await model.close()
