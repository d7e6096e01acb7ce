"""Waiting for an end, also where the one who waits is cancelled itself."""

import asyncio

import pytest

from skillbus.common.in_time import in_time


async def test_what_ends_in_time_is_told_from_what_does_not() -> None:
    assert await in_time(asyncio.sleep(0), 5)
    assert not await in_time(asyncio.sleep(60), 0.01)
    assert not await in_time(asyncio.sleep(60), -1)


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await in_time(fail(), 5)


async def test_work_that_took_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    assert not await in_time(work(), 0.01)
    async with asyncio.timeout(5):
        await cancelled.wait()


async def test_a_cancelled_task_still_comes_to_what_follows_the_wait() -> None:
    """`asyncio.timeout` in place of it would end the task at the wait, on Python before 3.11.4."""
    ended = asyncio.Event()

    async def live() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            assert not await in_time(asyncio.sleep(60), 0.01)
            ended.set()

    task = asyncio.create_task(live())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    assert ended.is_set()
