"""Hostile runs beside harmless ones, as many at a time as a machine has slots for."""

import asyncio
import os
from pathlib import Path

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.spec import RunOutcome, RunSpec

from .canaries import Planted
from .harness import USER, Harness, Way
from .leftovers import Traces
from .manifest import BY_NAME

pytestmark = pytest.mark.serial

HOSTILE = (
    "processes_forks_while_ended.py",
    "processes_refuse_to_end.py",
    "processes_threads.py",
    "memory_of_a_tree.py: private",
    "memory_of_sockets.py",
    "output_flood.py: 12",
    "files_fill.py: /work",
    "files_inodes.py: files",
)
SUM = "import sys; print(sum(range(int(sys.argv[1]))))"
AT_ONCE = 4


async def test_harmless_runs_give_their_results_beside_hostile_ones(canaries: Planted, tmp_path: Path) -> None:
    tmp_path.joinpath("sum.py").write_text(SUM)
    slots = asyncio.Semaphore(AT_ONCE)
    async with BubblewrapIsolation(user=USER) as isolation:
        try:
            level = (await isolation.probe()).level
        except SandboxUnavailable as unavailable:
            pytest.skip(f"no sandbox on this machine: {unavailable}")
        traces, hostile = Traces((USER,) if os.geteuid() == 0 else ()), Harness(isolation, canaries, Way(level))

        async def attack(name: str) -> None:
            async with slots:
                verdict = await hostile.unleash(BY_NAME[name])
                assert not verdict.through, str(verdict)

        async def add(number: int) -> RunOutcome:
            async with slots:
                return await isolation.run(RunSpec(tmp_path, "sum.py", Runtime.PYTHON, (str(number),)))

        async with asyncio.TaskGroup() as group:
            sums = []
            for number, name in enumerate(HOSTILE):
                group.create_task(attack(name))
                sums.append(group.create_task(add(number)))
    outcomes = [task.result() for task in sums]
    assert [(outcome.status, int(outcome.stdout)) for outcome in outcomes] == [
        (RunStatus.OK, sum(range(number))) for number in range(len(HOSTILE))
    ]
    assert set(traces.left({canaries.neighbour.pid}, 0)) == set()
