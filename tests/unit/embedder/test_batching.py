"""The laws of the batcher, on a model that a test holds and releases."""

import asyncio
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.domain.errors import (
    EmbedderClosedError,
    ModelUnavailableError,
    OverloadedError,
    TextNotEmbeddableError,
)
from skillbus.embedder.domain.inference.batcher import BatchedRows, Batcher, VectorCache, run_batch

from .fakes import SPEC, WAIT_S, FakeModel, vector_of


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, object]]]:
    """Capture logs: rendering the tracebacks of a model that fails again and again takes seconds."""
    with capture_logs() as lines:
        yield lines


@asynccontextmanager
async def batcher_of(model: FakeModel, cache: VectorCache | None = None, places: int = 4096) -> AsyncIterator[Batcher]:
    async with asyncio.timeout(WAIT_S), Batcher(model, cache or VectorCache(), places) as batcher:
        try:
            yield batcher
        finally:
            model.release_all()


def ask(batcher: Batcher, *texts: str, role: TextRole = TextRole.QUERY) -> asyncio.Task[BatchedRows]:
    return asyncio.create_task(batcher.embed_texts(texts, role))


async def entered(model: FakeModel) -> None:
    """Until the model has been called once more."""
    await model.entered.acquire()


async def queued(*_asked: asyncio.Task[BatchedRows]) -> None:
    """Lets tasks that were just made run up to their wait."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_rows_come_back_in_the_order_of_the_texts() -> None:
    async with batcher_of(FakeModel()) as batcher:
        found = await ask(batcher, "c", "a", "b", "a")
    assert np.array_equal(found.rows, np.stack([vector_of(text) for text in "caba"]))


async def test_a_lone_query_waits_for_no_timer() -> None:
    model = FakeModel()
    async with batcher_of(model) as batcher:
        await ask(batcher, "alone")
    assert model.batches == [["alone"]]


async def test_what_queues_while_the_model_is_busy_goes_in_one_batch() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        others = [ask(batcher, f"text {n}") for n in range(10)]
        await queued(*others)
        model.release_all()
        await asyncio.gather(first, *others)
    assert [len(batch) for batch in model.batches] == [1, 10]


async def test_a_batch_stays_within_its_token_budget() -> None:
    model = FakeModel(spec=replace(SPEC, batch_tokens=12))
    async with batcher_of(model) as batcher:
        await ask(batcher, *(f"{n:08d}" for n in range(7)))  # four estimated tokens each
    assert [len(batch) for batch in model.batches] == [3, 3, 1]


async def test_a_padded_model_pays_for_the_longest_text_of_a_batch() -> None:
    model = FakeModel(spec=replace(SPEC, batch_tokens=24, padded=True))
    async with batcher_of(model) as batcher:
        await ask(batcher, "a", "b", "x" * 40, "c")  # 2, 2, 12 and 2 estimated tokens
    assert model.batches == [["a", "b"], ["x" * 40, "c"]]


async def test_a_text_over_the_budget_is_a_batch_of_its_own() -> None:
    model = FakeModel(spec=replace(SPEC, batch_tokens=5))
    async with batcher_of(model) as batcher:
        await ask(batcher, "a", "x" * 90, "b")
    assert model.batches == [["a"], ["x" * 90], ["b"]]


async def test_texts_of_two_roles_are_never_in_one_batch() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        others = [ask(batcher, "same", role=role) for role in TextRole]
        await queued(*others)
        model.release_all()
        await asyncio.gather(first, *others)
    assert model.batches == [["first"], ["same"], ["same"]]


async def test_the_same_text_asked_for_by_many_is_computed_once() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        callers = [ask(batcher, "same") for _ in range(20)]
        await entered(model)
        callers += [ask(batcher, "ｓａｍｅ") for _ in range(20)]  # full width: equal after NFKC
        await queued(*callers)
        model.release_all()
        found = await asyncio.gather(*callers)
    assert model.batches == [["same"]]
    assert all(np.array_equal(one.rows[0], vector_of("same")) for one in found)


async def test_a_text_seen_before_is_not_computed_again() -> None:
    model = FakeModel()
    async with batcher_of(model) as batcher:
        for texts in (["seen"], ["seen", "new"], ["seen", "new"]):
            found = await ask(batcher, *texts)
            assert np.array_equal(found.rows, np.stack([vector_of(text) for text in texts]))
    assert model.batches == [["seen"], ["new"]]


async def test_indexing_does_not_drive_queries_out_of_the_cache() -> None:
    model = FakeModel()
    async with batcher_of(model, VectorCache(2)) as batcher:
        await ask(batcher, "query")
        await ask(batcher, *"abcdef", role=TextRole.DOCUMENT)
        await ask(batcher, "query")
        await ask(batcher, *"abcdef", role=TextRole.DOCUMENT)
    assert model.batches == [["query"], [*"abcdef"], [*"abcd"]]


async def test_a_query_overtakes_documents_and_waits_for_one_batch_of_them_at_most() -> None:
    model = FakeModel(spec=replace(SPEC, batch_tokens=4))
    model.hold()
    async with batcher_of(model) as batcher:
        bulk = ask(batcher, *"abcdef", role=TextRole.DOCUMENT)
        await entered(model)
        query = ask(batcher, "query")
        await queued(query)
        model.release_all()
        await asyncio.gather(bulk, query)
    assert model.batches == [["a", "b"], ["query"], ["c", "d"], ["e", "f"]]


async def test_documents_are_not_starved_by_queries() -> None:
    model = FakeModel(spec=replace(SPEC, batch_tokens=1))
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        others = [ask(batcher, *"ab", role=TextRole.DOCUMENT), *(ask(batcher, text) for text in "pqrstuvwx")]
        await queued(*others)
        model.release_all()
        await asyncio.gather(first, *others)
    assert "".join(text for batch in model.batches[1:] for text in batch) == "pqrsatuvwbx"


async def test_a_full_lane_refuses_the_whole_request_at_once_and_leaves_the_other_lane_open() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model, places=2) as batcher:
        running = ask(batcher, "running", role=TextRole.DOCUMENT)
        await entered(model)
        waiting = ask(batcher, "a", role=TextRole.DOCUMENT)
        await queued(waiting)
        with pytest.raises(OverloadedError) as refused:
            await batcher.embed_texts(["b", "c"], TextRole.DOCUMENT)
        query = ask(batcher, "query")
        await queued(query)
        model.release_all()
        await asyncio.gather(running, waiting, query)
    assert refused.value.details == {"queued": 1}
    assert model.batches == [["running"], ["query"], ["a"]]


async def test_a_cancelled_caller_is_not_computed_and_frees_its_place() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model, places=1) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        gone = ask(batcher, "gone")
        await queued(gone)
        gone.cancel()
        await asyncio.wait({gone})
        kept = ask(batcher, "kept")
        await queued(kept)
        model.release_all()
        await asyncio.gather(first, kept)
    assert model.batches == [["first"], ["kept"]]


async def test_a_text_that_another_caller_shares_is_computed_though_one_of_them_is_cancelled() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        gone, stays = ask(batcher, "shared"), ask(batcher, "shared")
        await queued(gone, stays)
        gone.cancel()
        await asyncio.wait({gone})
        model.release_all()
        found = await stays
        await first
    assert np.array_equal(found.rows[0], vector_of("shared"))


async def test_a_text_abandoned_and_asked_for_again_is_computed() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        gone = ask(batcher, "text")
        await queued(gone)
        gone.cancel()
        await asyncio.wait({gone})
        again = ask(batcher, "text")
        await queued(again)
        model.release_all()
        await asyncio.gather(first, again)
    assert model.batches == [["first"], ["text"]]


async def test_a_bad_text_in_a_batch_fails_alone() -> None:
    model = FakeModel(poison=["bad"])
    model.hold()
    async with batcher_of(model) as batcher:
        first = ask(batcher, "first")
        await entered(model)
        good, bad = [ask(batcher, f"good {n}") for n in range(7)], ask(batcher, "fine", "bad")
        await queued(bad)
        model.release_all()
        found = await asyncio.gather(first, *good)
        with pytest.raises(TextNotEmbeddableError) as failed:
            await bad
    assert len(found) == 8
    assert failed.value.details == {"text_index": 1}
    assert isinstance(failed.value.__cause__, RuntimeError)


async def test_a_failing_batch_logs_one_traceback_and_a_line_for_each_of_its_halves(
    logged: list[MutableMapping[str, object]],
) -> None:
    await run_batch(FakeModel(poison=["bad"]), ["a", "b", "c", "bad"], TextRole.QUERY)
    failures = [line for line in logged if line["event"] == "embedding_batch_failed"]
    assert [line["batch_texts"] for line in failures] == [4, 2, 1]
    assert [line["exc_info"] is None for line in failures] == [False, True, True]
    assert {line["error"] for line in failures} == {"RuntimeError('poisoned')"}


async def test_a_model_that_cannot_be_had_is_asked_once_and_no_text_is_blamed() -> None:
    model = FakeModel()
    model.gone = ModelUnavailableError("the provider is down")
    async with batcher_of(model) as batcher:
        with pytest.raises(ModelUnavailableError, match="down"):
            await ask(batcher, *"abcdefgh")
        model.gone = None
        await ask(batcher, "a")
    assert [len(batch) for batch in model.batches] == [8, 1]


async def test_several_batches_are_at_work_when_the_model_has_several_slots() -> None:
    model = FakeModel(spec=replace(SPEC, slots=3))
    model.hold()
    async with batcher_of(model) as batcher:
        callers = []
        for number in range(3):
            callers.append(ask(batcher, f"text {number}"))
            await entered(model)
        callers += [ask(batcher, f"more {number}") for number in range(4)]
        await queued(*callers)
        assert len(model.batches) == 3
        model.release_all()
        await asyncio.gather(*callers)
    assert [len(batch) for batch in model.batches] == [1, 1, 1, 4]


async def test_tokens_are_those_that_the_provider_counted_or_an_estimate() -> None:
    model = FakeModel()
    async with batcher_of(model) as batcher:
        estimated = await ask(batcher, "a" * 40, "b")
        model.counted = 9
        counted = await ask(batcher, "c" * 40, "d")
    assert (estimated.tokens, counted.tokens) == (14, 9)


async def test_a_count_that_no_float_holds_fails_its_texts_and_the_next_ones_are_served() -> None:
    model = FakeModel()
    async with batcher_of(model) as batcher:
        model.counted = 10**400
        with pytest.raises(TextNotEmbeddableError):
            await ask(batcher, "a")
        model.counted = 9
        assert (await ask(batcher, "b")).tokens == 9


async def test_a_batcher_that_finishes_answers_everyone_before_it_closes() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        running = ask(batcher, "running")
        await entered(model)
        waiting = ask(batcher, "waiting")
        await queued(waiting)
        finishing = asyncio.create_task(batcher.finish(within_s=WAIT_S))
        await queued(waiting)
        model.release_all()
        assert (await running).rows.shape == (await waiting).rows.shape == (1, 8)
        await finishing
        with pytest.raises(EmbedderClosedError):
            await ask(batcher, "late")


async def test_every_waiter_is_answered_when_the_model_is_dead_and_the_next_request_is_tried_again() -> None:
    model = FakeModel(poison=[f"text {n}" for n in range(9)])
    async with batcher_of(model) as batcher:
        callers = [ask(batcher, f"text {n}") for n in range(9)]
        answers = await asyncio.gather(*callers, return_exceptions=True)
        model.poison = frozenset()
        await ask(batcher, "text 3")
    assert [type(answer) for answer in answers] == [TextNotEmbeddableError] * 9
    assert model.batches[-1] == ["text 3"]


@pytest.mark.parametrize("rows", [np.zeros((1, 8)), np.full((1, 8), np.nan), np.ones((2, 8)), np.ones((1, 4)) / 2])
async def test_vectors_that_are_no_unit_vectors_reach_nobody(rows: np.ndarray) -> None:
    model = FakeModel()
    model.returned = rows.astype(np.float32)
    async with batcher_of(model) as batcher:
        with pytest.raises(TextNotEmbeddableError):
            await ask(batcher, "text")


async def test_close_answers_who_queues_at_once_and_who_is_computed_with_the_vector() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        running = ask(batcher, "running")
        await entered(model)
        waiting = ask(batcher, "waiting")
        await queued(waiting)
        closing = asyncio.create_task(batcher.close())
        with pytest.raises(EmbedderClosedError):
            await waiting
        model.release_all()
        await closing
        assert np.array_equal((await running).rows[0], vector_of("running"))
        with pytest.raises(EmbedderClosedError):
            await ask(batcher, "late")


async def test_close_answers_also_who_waits_for_a_model_that_hangs() -> None:
    model = FakeModel()
    model.hold()
    async with batcher_of(model) as batcher:
        running = ask(batcher, "running")
        await entered(model)
        await batcher.close(grace_s=0)
        with pytest.raises(EmbedderClosedError):
            await running


async def test_a_vector_handed_out_cannot_change_the_cached_one() -> None:
    async with batcher_of(FakeModel()) as batcher:
        (await ask(batcher, "text")).rows[:] = 0
        assert np.array_equal((await ask(batcher, "text")).rows[0], vector_of("text"))


async def test_no_texts_give_no_rows() -> None:
    async with batcher_of(FakeModel()) as batcher:
        assert (await ask(batcher)).rows.shape == (0, 8)


async def test_cached_vectors_are_read_only_copies_of_their_rows() -> None:
    """A writable row could be changed by a caller, and a view would keep its whole batch in memory."""
    outcomes = await run_batch(FakeModel(), ["a", "b"], TextRole.QUERY)
    rows = [outcome.vector for outcome in outcomes if outcome.vector is not None]
    assert len(rows) == 2
    assert all(row.base is None and not row.flags.writeable for row in rows)
