"""What is left of runs is cleared away behind their replies, all of it, and never too far behind."""

import asyncio

from skillbus.sandbox.adapters.bubblewrap.isolation import RunCleanup


async def test_it_is_done_behind_whoever_asks_for_it_and_waited_for_by_whoever_wants_it_done() -> None:
    clearing, done = RunCleanup(), list[str]()

    async def work() -> None:
        done.append("cleared")

    clearing.schedule(work)
    await asyncio.sleep(0)
    done.append("replied")
    await clearing.wait_until_done()
    assert done == ["replied", "cleared"]


async def test_what_fails_keeps_nothing_else_from_being_cleared() -> None:
    clearing, done = RunCleanup(), list[str]()

    async def fails() -> None:
        raise OSError("no")

    async def works() -> None:
        done.append("cleared")

    clearing.schedule(fails)
    clearing.schedule(works)
    await clearing.wait_until_done()
    assert done == ["cleared"]


def test_a_loop_that_ends_clears_what_is_left_before() -> None:
    done = list[str]()

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("cleared")

    async def ends_at_once() -> None:
        RunCleanup().schedule(work)
        await asyncio.sleep(0)

    asyncio.run(ends_at_once())
    assert done == ["cleared"]


async def test_a_run_waits_while_too_many_before_it_are_not_cleared_away() -> None:
    clearing, go_on = RunCleanup(), asyncio.Event()
    for _ in range(40):
        clearing.schedule(go_on.wait)
    waiting = asyncio.ensure_future(clearing.wait_for_room())
    _, pending = await asyncio.wait([waiting], timeout=0.05)
    assert pending
    go_on.set()
    async with asyncio.timeout(5):
        await waiting
        await clearing.wait_until_done()
