"""Sandboxes that wait: how many, for how long, and what becomes of those that fail."""

import asyncio
from dataclasses import dataclass, field

import pytest

from skillbus.common.testing import eventually
from skillbus.sandbox.adapters.bubblewrap.pool import WarmPool
from skillbus.sandbox.domain.errors import SandboxBroken


@dataclass(eq=False)
class FakeProcess:
    running: bool = True
    pid: int = 1

    def is_running(self) -> bool:
        return self.running


@dataclass(eq=False)
class FakePrepared:
    sandbox: FakeProcess = field(default_factory=FakeProcess)
    pids: tuple[int, ...] = (2, 3)
    ended: bool = False

    async def end(self) -> None:
        self.ended = True


class Maker:
    """Makes sandboxes, or fails as often as it is told to."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.made: list[FakePrepared] = []
        self.failures = failures
        self.error = error or SandboxBroken("not now")

    async def __call__(self) -> FakePrepared:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise self.error
        self.made.append(FakePrepared())
        return self.made[-1]


def pool_of(maker: Maker, size: int, idle_s: float | None = None) -> WarmPool:
    return WarmPool(maker, size, idle_s)  # type: ignore[arg-type]  # a fake of what it holds


async def settle() -> None:
    """Let the pool's task run until it waits: a fake start yields once, so that ten turns of the loop are plenty."""
    for _ in range(10):
        await asyncio.sleep(0)


async def filled(pool: WarmPool, size: int) -> None:
    async def waiting() -> int:
        return len(pool)

    await eventually(waiting, lambda number: number == size)


async def test_it_fills_when_it_is_opened_and_again_after_a_run() -> None:
    pool = pool_of(maker := Maker(), 2)
    assert await pool.take_sandbox() is None
    pool.open()
    await filled(pool, 2)
    pool.begin_run()
    taken = await pool.take_sandbox()
    assert id(taken) == id(maker.made[0])
    await settle()
    assert len(pool) == 1, "none is started beside a run while another waits"
    pool.end_run()
    await filled(pool, 2)
    await pool.close()
    assert [one.ended for one in maker.made] == [False, True, True], "what was taken is not the pool's any more"


async def test_when_a_run_finds_none_another_is_started_beside_it() -> None:
    pool = pool_of(Maker(), 1)
    pool.open()
    await filled(pool, 1)
    pool.begin_run()
    assert await pool.take_sandbox() is not None
    pool.begin_run()
    assert await pool.take_sandbox() is None
    await filled(pool, 1)
    await pool.close()


async def test_beside_runs_one_is_started_when_a_run_has_found_none() -> None:
    pool = pool_of(maker := Maker(), 2)
    pool.open()
    await filled(pool, 2)
    for _ in range(3):
        pool.begin_run()
    assert None not in {await pool.take_sandbox(), await pool.take_sandbox()}
    await settle()
    assert (len(pool), len(maker.made)) == (0, 2)
    assert await pool.take_sandbox() is None
    await filled(pool, 1)
    await settle()
    assert len(pool) == 1, "no more while runs go on"
    for _ in range(3):
        pool.end_run()
    await filled(pool, 2)
    await pool.close()


async def test_of_none_nothing_is_started() -> None:
    pool = pool_of(maker := Maker(), 0)
    pool.open()
    await settle()
    assert (len(pool), maker.made) == (0, [])
    await pool.close()


async def test_one_that_ended_while_it_waited_is_not_given_out() -> None:
    pool = pool_of(maker := Maker(), 2)
    pool.open()
    await filled(pool, 2)
    maker.made[0].sandbox.running = False
    assert id(await pool.take_sandbox()) == id(maker.made[1])
    assert maker.made[0].ended
    await pool.close()


@pytest.mark.parametrize("error", [SandboxBroken("not now"), OSError("too many open files")])
async def test_one_that_does_not_start_keeps_no_run_waiting_and_is_tried_again_after_the_next(error: Exception) -> None:
    pool = pool_of(Maker(1, error), 1)
    pool.open()
    await settle()
    pool.begin_run()
    assert await pool.take_sandbox() is None
    pool.end_run()
    await filled(pool, 1)
    await pool.close()


async def test_unused_for_long_it_empties_and_fills_when_it_is_opened_again() -> None:
    pool = pool_of(maker := Maker(), 1, idle_s=0.05)
    pool.open()
    await filled(pool, 1)
    await filled(pool, 0)
    assert maker.made[0].ended
    pool.open()
    await filled(pool, 1)
    await pool.close()


@pytest.mark.parametrize("size", [1, 3])
async def test_closed_it_leaves_nothing_of_those_that_wait(size: int) -> None:
    pool = pool_of(maker := Maker(), size)
    pool.open()
    await filled(pool, size)
    await pool.close()
    assert len(pool) == 0
    assert all(one.ended for one in maker.made)
