"""Sandboxes that wait: how many, for how long, for which projects, and what becomes of those that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.pool import PROJECTS_MAX, ProjectPools, WarmPool
from skillbus.sandbox.adapters.bubblewrap.profile import Warm
from skillbus.sandbox.domain.errors import SandboxBroken


@dataclass(eq=False)
class FakeProcess:
    running: bool = True
    pid: int = 1


@dataclass(eq=False)
class FakePrepared:
    sandbox: FakeProcess = field(default_factory=FakeProcess)
    pids: tuple[int, ...] = (2, 3)
    ended: bool = False
    fails: bool = False

    def is_running(self) -> bool:
        return self.sandbox.running

    async def end(self) -> None:
        self.ended = True
        if self.fails:
            raise OSError("it did not end")


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


async def test_it_closes_also_if_the_start_that_it_cancels_ends_with_an_error() -> None:
    begun, failed = asyncio.Event(), list[TimeoutError]()

    async def start() -> FakePrepared:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            if not failed:
                failed.append(error := TimeoutError("a process did not end"))
                raise error
        raise AssertionError("it was not cancelled")

    pool = WarmPool(start, 1)  # type: ignore[arg-type]
    pool.open()
    await begun.wait()
    done, _ = await asyncio.wait({asyncio.create_task(pool.close())}, timeout=5)
    assert (bool(done), len(failed)) == (True, 1)


async def test_one_whose_end_fails_keeps_none_of_the_others() -> None:
    pool = pool_of(maker := Maker(), 3)
    pool.open()
    await filled(pool, 3)
    for one in maker.made:
        one.fails = True
    with pytest.raises(OSError, match="did not end"):
        await pool.close()
    assert [one.ended for one in maker.made] == [True] * 3


class Projects:
    """Pools of projects, and what was done for each of them."""

    def __init__(self) -> None:
        self.made: dict[str, list[FakePrepared]] = {}
        self.retired: list[str] = []
        self.scheduled: list[Callable[[], Awaitable[None]]] = []
        self.pools = ProjectPools(self.start, 1, self.retired.append, self.scheduled.append)  # type: ignore[arg-type]

    async def start(self, project: str, warm: Warm) -> FakePrepared:
        self.made.setdefault(project, []).append(prepared := FakePrepared())
        return prepared

    async def open(self, *projects: str) -> None:
        """Fill both pools of each project by runs that have ended."""
        for project in projects:
            for runtime in (Runtime.PYTHON, Runtime.NODE):
                pool = self.pools.begin_run(project, runtime)
                pool.open()
                await filled(pool, 1)
                self.pools.end_run(pool)

    async def run_scheduled(self) -> None:
        while self.scheduled:
            await self.scheduled.pop(0)()


PROJECTS = [f"p{number}" for number in range(PROJECTS_MAX)]


async def test_beyond_four_the_project_used_longest_ago_is_given_up() -> None:
    projects = Projects()
    await projects.open(*PROJECTS, "p0", "new")
    await projects.run_scheduled()
    assert (projects.retired, [one.ended for one in projects.made["p1"]]) == (["p1"], [True, True])
    assert not any(one.ended for name, made in projects.made.items() if name != "p1" for one in made)
    await projects.pools.close()


async def test_projects_with_runs_are_kept_and_those_in_excess_are_given_up_when_a_run_ends() -> None:
    projects = Projects()
    pools = [projects.pools.begin_run(name, Runtime.PYTHON) for name in (*PROJECTS, "more", "most")]
    await projects.run_scheduled()
    assert projects.retired == []
    for ended, retired in ((pools[1], ["p1"]), (pools[5], ["p1", "most"]), (pools[0], ["p1", "most"])):
        projects.pools.end_run(ended)
        await projects.run_scheduled()
        assert projects.retired == retired
    await projects.pools.close()


async def test_a_project_that_comes_back_before_its_end_keeps_its_fork_server() -> None:
    projects = Projects()
    await projects.open(*PROJECTS, "new")
    projects.pools.begin_run("p0", Runtime.PYTHON)
    await projects.scheduled.pop(0)()
    assert (projects.retired, [one.ended for one in projects.made["p0"]]) == ([], [True, True])
    await projects.pools.close()


async def test_a_sandbox_whose_end_fails_keeps_nothing_else_of_a_project_that_is_given_up() -> None:
    projects = Projects()
    await projects.open(*PROJECTS)
    projects.made["p0"][0].fails = projects.made["p0"][1].fails = True
    await projects.open("new")
    with pytest.raises(OSError, match="did not end"):
        await projects.run_scheduled()
    assert (projects.retired, [one.ended for one in projects.made["p0"]]) == (["p0"], [True, True])
    await projects.pools.close()


async def test_a_sandbox_whose_end_fails_keeps_no_sandbox_and_no_fork_server_of_the_service() -> None:
    class FakeServer:
        closed = False

        def close(self) -> None:
            self.closed = True

    isolation, projects, server = BubblewrapIsolation(), Projects(), FakeServer()
    await projects.open("one", "other")
    isolation._pools = projects.pools
    isolation._starter._servers["one"] = server  # type: ignore[assignment]
    for made in projects.made.values():
        made[0].fails = True
    with pytest.raises(OSError, match="did not end"):
        await isolation.__aexit__()
    assert server.closed
    assert [one.ended for made in projects.made.values() for one in made] == [True] * 4
