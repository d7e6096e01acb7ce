"""A switch that is cut short, delayed or written around at any call of any port ends as if it had not been."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import SwitchPhase
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.switch_driver import SwitchTask

from .world import A, B, World, collection, entry, forever, key, skill


async def _died_at(world: World, number: int, when: str) -> bool:
    """Whether the driver came to that call; if so it is gone."""
    there = asyncio.Event()

    async def die(at: int) -> None:
        if at == number:
            there.set()
            await forever()

    setattr(world.calls, when, die)
    running = asyncio.create_task(world.driver("one").run_round())
    waiting = asyncio.create_task(there.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=5)
    died = there.is_set()
    for task in (running, waiting):
        task.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    world.calls.before = world.calls.after = _nothing
    return died


async def _nothing(_: int) -> None:
    return


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_driver_that_dies_at_any_call_is_followed_by_one_that_ends_the_same(when: str) -> None:
    for number in count(1):
        world = World()
        await world.default_is(B)
        world.calls.count = 0
        died = await _died_at(world, number, when)
        await world.take_over()
        world.assert_switched_to(B)
        if not died:
            assert number > 15
            return


@pytest.mark.parametrize("error", [IndexUnavailableError("away"), RequestError(ErrorCode.UNAVAILABLE, "away")])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_that_fails_is_made_again(when: str, error: Exception) -> None:
    for number in count(1):
        world = World()
        await world.default_is(B)
        world.calls.count = 0

        async def fail(at: int, number: int = number) -> None:
            if at == number:
                raise error

        setattr(world.calls, when, fail)
        driver = world.driver()
        for _ in range(3):
            if world.record.running:
                try:
                    await driver.run_round()
                except type(error):
                    continue
        world.assert_switched_to(B)
        if world.calls.count < number:
            return


async def test_a_driver_that_was_held_up_until_another_took_over_does_no_harm() -> None:
    for number in count(1):
        world = World()
        await world.default_is(B)
        world.calls.count = 0
        held, go_on = asyncio.Event(), asyncio.Event()

        async def hold(
            at: int,
            number: int = number,
            held: asyncio.Event = held,
            go_on: asyncio.Event = go_on,
            world: World = world,
        ) -> None:
            if at == number:
                held.set()
                world.calls.before = _nothing
                world.calls.asleep = False
                await go_on.wait()

        world.calls.before = hold
        first = asyncio.create_task(world.driver("one").run_round())
        waiting = asyncio.create_task(held.wait())
        await asyncio.wait([first, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        waiting.cancel()
        world.calls.before = _nothing
        second = await world.take_over()
        go_on.set()
        await asyncio.wait_for(first, 5)
        await second.run_round()
        world.assert_switched_to(B)
        if not held.is_set():
            return


async def test_a_driver_that_was_held_up_over_a_rollback_does_not_undo_it() -> None:
    for number in count(1):
        world = World()
        await world.default_is(B)
        world.calls.count = 0
        held, go_on = asyncio.Event(), asyncio.Event()

        async def hold(
            at: int,
            number: int = number,
            held: asyncio.Event = held,
            go_on: asyncio.Event = go_on,
            world: World = world,
        ) -> None:
            if at == number:
                held.set()
                world.calls.before = _nothing
                world.calls.asleep = False
                await go_on.wait()

        world.calls.before = hold
        first = asyncio.create_task(world.driver("one").run_round())
        waiting = asyncio.create_task(held.wait())
        await asyncio.wait([first, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        waiting.cancel()
        world.calls.before = _nothing
        await world.decisions.roll_back()
        go_on.set()
        await asyncio.wait_for(first, 5)
        await world.driver("two").run_round()
        assert (world.phase, world.collections.alias) == (SwitchPhase.ROLLED_BACK, collection(A))
        assert world.holds_exactly(A)
        if not held.is_set():
            return


def _install(world: World) -> Callable[[], Awaitable[None]]:
    world.catalogue.has(skill("new"))
    return lambda: world.index.put_entries([entry(skill("new"))])


def _update(world: World) -> Callable[[], Awaitable[None]]:
    changed = skill("tool-1", "Does something else.")
    world.catalogue.has(changed)
    return lambda: world.index.put_entries([entry(changed)])


def _uninstall(world: World) -> Callable[[], Awaitable[None]]:
    world.catalogue.lacks("tool-1")
    return lambda: world.index.remove_entries([key("tool-1")])


@pytest.mark.parametrize("change", [_install, _update, _uninstall])
@pytest.mark.parametrize("delay", [0, 1, 2, 5])
async def test_what_is_written_at_any_moment_of_a_switch_is_in_the_new_index(
    change: Callable[[World], Callable[[], Awaitable[None]]], delay: int
) -> None:
    """The catalogue is changed at one call, and the index some calls later, as another request would."""
    for number in count(1):
        world = World()
        await world.default_is(B)
        world.calls.count = 0
        writes: list[Callable[[], Awaitable[None]]] = []

        async def write(
            at: int, number: int = number, world: World = world, writes: list[Callable[[], Awaitable[None]]] = writes
        ) -> None:
            if at == number:
                writes.append(change(world))
            if at == number + delay and writes:
                await writes.pop()()

        world.calls.before = write
        await world.driver().run_round()
        ended = world.calls.count < number
        for late in writes:
            await late()
        world.assert_switched_to(B)
        assert ended or world.holds_exactly(A)
        if ended:
            return


@pytest.mark.parametrize("change", [_install, _update, _uninstall])
async def test_a_writer_that_knows_nothing_of_the_switch_yet_loses_nothing(
    change: Callable[[World], Callable[[], Awaitable[None]]],
) -> None:
    """It has changed the catalogue and read that there is no switch; its write comes at any moment of the switch."""
    for number in count(1):
        world = World()
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(
            reached: asyncio.Event = reached, go_on: asyncio.Event = go_on, world: World = world
        ) -> str | None:
            del world.collections.find_live  # the first reader is the writer, and the only one to wait
            reached.set()
            await go_on.wait()
            return collection(A)

        world.collections.find_live = slowly  # type: ignore[method-assign, assignment]
        writer = asyncio.ensure_future(change(world)())
        await asyncio.wait_for(reached.wait(), 5)
        await world.default_is(B)
        world.calls.count = 0

        async def let_go(
            at: int, number: int = number, go_on: asyncio.Event = go_on, writer: "asyncio.Future[None]" = writer
        ) -> None:
            if at == number:
                go_on.set()
                await writer

        world.calls.before = let_go
        await world.driver().run_round()
        ended = world.calls.count < number
        world.calls.before = _nothing
        go_on.set()
        await writer
        world.assert_switched_to(B)
        if ended:
            return


async def test_a_switch_that_is_stopped_ends_and_releases_its_lease_also_if_a_call_swallows_the_cancellation() -> None:
    world = World()
    await world.default_is(B)
    world.collections.without_dense = {B.fingerprint}  # the switch is tried for ever
    held = asyncio.Event()

    async def swallow(_: int) -> None:
        """Go on after the cancellation, as nats-py does before Python 3.12 if the answer comes at the same moment."""
        if world.record.switch.problem is not None and not held.is_set():
            held.set()
            with suppress(asyncio.CancelledError):
                await forever()

    world.calls.before = swallow
    task = SwitchTask(world.decisions, world.driver())
    running = asyncio.create_task(task.run())
    await held.wait()
    task.stop()
    running.cancel()
    ended, _ = await asyncio.wait({running}, timeout=5)
    assert (bool(ended), world.record.owner) == (True, None)


async def test_two_replicas_drive_one_switch_once() -> None:
    world = World(tools=200)
    await world.default_is(B)
    written = 0
    original = world.collections.write_points

    async def counting(*args: object, **options: object) -> bool:
        nonlocal written
        written += 1
        await asyncio.sleep(0)
        return await original(*args, **options)  # type: ignore[arg-type]

    world.collections.write_points = counting  # type: ignore[method-assign, assignment]
    one, two = world.driver("one"), world.driver("two")

    async def both() -> SwitchPhase:
        await asyncio.gather(one.run_round(), two.run_round())
        return world.phase

    await eventually(both, lambda phase: phase is SwitchPhase.KEPT)
    world.assert_switched_to(B)
    assert written == 7  # batches of 32
