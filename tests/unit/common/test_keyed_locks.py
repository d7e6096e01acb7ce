"""Locks by key."""

import asyncio

from skillbus.common.keyed_locks import KeyedLocks


async def test_holders_of_one_key_wait_for_each_other_and_those_of_another_do_not() -> None:
    locks, entered = KeyedLocks[str](), list[str]()
    release = asyncio.Event()

    async def hold(name: str, key: str) -> None:
        async with locks.hold(key):
            entered.append(name)
            await release.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold("first", "a"))
        group.create_task(hold("second", "a"))
        group.create_task(hold("other", "b"))
        await asyncio.sleep(0)  # each task runs until it holds its lock or waits for it
        assert entered == ["first", "other"]
        release.set()
    assert entered == ["first", "other", "second"]


async def test_holders_of_several_keys_in_different_orders_do_not_deadlock() -> None:
    locks = KeyedLocks[tuple[str, str]]()

    async def hold(*keys: tuple[str, str]) -> None:
        for _ in range(50):
            async with locks.hold(*keys):
                await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await asyncio.gather(hold(("p", "a"), ("p", "b")), hold(("p", "b"), ("p", "a"), ("p", "b")))


async def test_a_lock_is_forgotten_when_nobody_holds_it() -> None:
    locks = KeyedLocks[str]()
    async with locks.hold("a"):
        assert len(locks._locks) == 1
    assert not locks._locks
