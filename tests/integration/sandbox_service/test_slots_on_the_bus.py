"""Runs asked for over the bus: how many there may be, for how long, and what a machine without isolation answers."""

import asyncio

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox import HEALTH
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, RunStatus

from .conftest import OpenSandbox
from .fakes import HeldIsolation, NoIsolation


async def test_more_runs_than_permits_are_refused_at_once(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held, slots=1, waiting=1) as sandbox:
        await sandbox.catalogue.put("say", "said")
        first, second = (asyncio.create_task(sandbox.run("say")) for _ in range(2))
        async with asyncio.timeout(5):
            await held.begun.acquire()
            refused = await asyncio.gather(*(sandbox.run("say") for _ in range(5)), return_exceptions=True)
            held.go_on.set()
            done = await asyncio.gather(first, second)
    codes = [error.code for error in refused if isinstance(error, RequestError)]
    assert codes == [ErrorCode.OVERLOADED] * 5
    assert [await sandbox.text_of(ran) for ran in done] == ["said", "said"]


async def test_a_run_that_waited_for_its_slot_has_what_is_left_of_its_callers_time(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held, slots=1, waiting=2) as sandbox:
        await sandbox.catalogue.put("say", "said")
        first = asyncio.create_task(sandbox.run("say"))
        async with asyncio.timeout(5):
            await held.begun.acquire()
            second = asyncio.create_task(sandbox.run("say", timeout_s=8.0))
            asyncio.get_running_loop().call_later(0.5, held.go_on.set)
            await asyncio.gather(first, second)
    assert held.specs[1].limits.wall_s < 8.0 - 3.0 - 0.4


async def test_a_run_whose_caller_is_gone_gives_its_place_to_others(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held, slots=1, waiting=1) as sandbox:
        await sandbox.catalogue.put("say", "said")
        first = asyncio.create_task(sandbox.run("say"))
        async with asyncio.timeout(5):
            await held.begun.acquire()
            with pytest.raises(RequestError) as caught:
                await sandbox.run("say", timeout_s=3.2)
            assert caught.value.code == ErrorCode.DEADLINE_EXCEEDED
            third = asyncio.create_task(sandbox.run("say"))
            held.go_on.set()
            assert [ran.status for ran in await asyncio.gather(first, third)] == [RunStatus.OK, RunStatus.OK]
    assert len(held.specs) == 2


async def test_a_run_at_work_is_answered_when_the_sandbox_stops(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with asyncio.timeout(5):
        async with open_one(held) as sandbox:
            await sandbox.catalogue.put("say", "said")
            running = asyncio.create_task(sandbox.run("say"))
            await held.begun.acquire()
            asyncio.get_running_loop().call_later(0.1, held.go_on.set)
        assert (await running).status == RunStatus.OK


async def test_a_machine_that_cannot_isolate_runs_nothing_and_says_why(open_one: OpenSandbox) -> None:
    async with open_one(NoIsolation()) as sandbox:
        await sandbox.catalogue.put("say", "said")
        with pytest.raises(RequestError) as caught:
            await sandbox.run("say")
        health = await sandbox.bus.caller.call(HEALTH, Empty())
        limits = await sandbox.bus.caller.call(GET_LIMITS, Empty())
    assert caught.value.code == ErrorCode.SANDBOX_UNAVAILABLE
    assert not caught.value.retryable
    assert (health.ready, limits.isolation) == (False, None)
    assert caught.value.message == health.checks[0].detail == limits.reason
