"""Last work of an act: the answer waits for it, recording does not."""

import asyncio

import pytest

from skillbus.common.audit_log.last_work import finish_before_answer
from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.contracts.audit_log import AuditedAct, AuditFact, AuditOutcome
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty


class Store:
    """Stores a fact once `may_store` is set."""

    def __init__(self) -> None:
        self.facts = list[AuditFact]()
        self.may_store = asyncio.Event()
        self.stored = asyncio.Event()

    async def append_fact(self, fact: AuditFact) -> None:
        await self.may_store.wait()
        self.facts.append(fact)
        self.stored.set()


async def test_an_act_is_recorded_while_its_last_work_goes_on_and_answered_after_both() -> None:
    store, work_may_end, ended = Store(), asyncio.Event(), list[str]()

    async def work() -> None:
        store.may_store.set()  # so this act would wait forever if its work began after it was recorded
        await work_may_end.wait()
        ended.append("work")

    async def handle(request: Empty) -> Empty:
        await finish_before_answer(work())
        ended.append("handler")
        return request

    answer = asyncio.create_task(ActRecorder(store, "painter").carry_out("paint", AuditedAct(), Empty(), handle))
    async with asyncio.timeout(5):
        await store.stored.wait()
        assert (ended, answer.done()) == (["handler"], False)
        work_may_end.set()
        await answer
    assert ended == ["handler", "work"]


@pytest.mark.parametrize("is_refused", [True, False])
async def test_an_answer_that_is_an_error_waits_as_well_and_an_error_of_the_work_is_the_answer(
    is_refused: bool,
) -> None:
    store, ended = Store(), list[str]()
    store.may_store.set()

    async def work() -> None:
        await asyncio.sleep(0)
        ended.append("work")
        if not is_refused:
            raise TimeoutError("canary")

    async def handle(request: Empty) -> Empty:
        await finish_before_answer(work())
        if is_refused:
            raise ValueError("canary")
        return request

    with pytest.raises(ValueError if is_refused else TimeoutError, match="canary"):
        await ActRecorder(store, "painter").carry_out("paint", AuditedAct(), Empty(), handle)
    assert ended == ["work"]
    assert [fact.outcome for fact in store.facts] == [AuditOutcome.FAILED if is_refused else AuditOutcome.DONE]


async def test_where_no_act_is_carried_out_the_work_is_waited_for_at_once() -> None:
    ended = list[str]()

    async def work() -> None:
        await asyncio.sleep(0)
        ended.append("work")

    async def inner() -> None:
        await finish_before_answer(work())
        assert ended

    async def handle(request: Empty) -> Empty:
        await asyncio.create_task(inner())  # as an endpoint of the same process does: it answers for itself
        return request

    await inner()
    ended.clear()
    store = Store()
    store.may_store.set()
    await ActRecorder(store, "painter").carry_out("paint", AuditedAct(), Empty(), handle)
    assert ended == ["work"]


async def test_an_answer_that_is_cancelled_ends_the_work() -> None:
    ended = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def handle(request: Empty) -> Empty:
        await finish_before_answer(work())
        return request

    store = Store()
    store.may_store.set()
    answer = asyncio.create_task(ActRecorder(store, "painter").carry_out("paint", AuditedAct(), Empty(), handle))
    async with asyncio.timeout(5):
        await store.stored.wait()
    await asyncio.sleep(0)
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert ended == ["work"]


async def test_a_fact_that_cannot_be_stored_is_told_after_the_work_has_ended() -> None:
    ended = list[str]()

    class Refusing:
        async def append_fact(self, _: AuditFact) -> None:
            raise RequestError(ErrorCode.UNAVAILABLE, "no room")

    async def work() -> None:
        await asyncio.sleep(0)
        ended.append("work")

    async def handle(request: Empty) -> Empty:
        await finish_before_answer(work())
        return request

    with pytest.raises(RequestError) as told:
        await ActRecorder(Refusing(), "painter").carry_out("paint", AuditedAct(), Empty(), handle)
    assert told.value.details == {"done": True}
    assert ended == ["work"]
