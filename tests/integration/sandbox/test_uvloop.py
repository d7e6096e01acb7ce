"""The sandbox on the loop that services run on."""

import asyncio
import os
from pathlib import Path

import uvloop

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.run.spec import RunSpec


async def _runs(root: Path) -> list[RunStatus]:
    """Sixteen runs, four at a time, while others open descriptors that a run has just given back."""
    isolation = BubblewrapIsolation()
    await isolation.probe()
    slots = asyncio.Semaphore(4)

    async def one() -> RunStatus:
        async with slots:
            outcome = await isolation.run(RunSpec(root, "main.sh", Runtime.BASH))
        reading, writing = os.pipe()
        try:
            await asyncio.sleep(0)
            os.write(writing, b"mine")
            assert os.read(reading, 4) == b"mine"
        finally:
            os.close(reading)
            os.close(writing)
        return outcome.status

    async with asyncio.timeout(40):
        return await asyncio.gather(*(one() for _ in range(16)))


def test_a_run_closes_no_descriptor_of_another_on_uvloop(tmp_path: Path) -> None:
    root = tmp_path / "skill"
    root.mkdir()
    root.chmod(0o755)
    (root / "main.sh").write_text("echo done\n")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert set(runner.run(_runs(root))) == {RunStatus.OK}
