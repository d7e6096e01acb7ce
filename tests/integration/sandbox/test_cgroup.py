"""What the kernel holds where a part of the cgroup tree is ours; elsewhere `test_cgroup_kernel.py` boots one for it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.kernel.cgroup import Cgroups, NotDelegatedError, find_delegated
from skillbus.sandbox.adapters.kernel.metering import ChosenMetering
from skillbus.sandbox.domain.isolation import Meter
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import RunOutcome

Run = Callable[..., "asyncio.Future[RunOutcome]"]
Make = Callable[..., BubblewrapIsolation]


@pytest.fixture(scope="session")
def delegated() -> Path:
    """The folder of cgroups that is ours; asked once, since this process moves below it."""
    try:
        folder = find_delegated()
        Cgroups(folder).prepare()
    except (NotDelegatedError, OSError) as reason:
        pytest.skip(f"no part of the cgroup tree is ours: {reason}")
    return folder


@pytest.fixture
def cgroups(delegated: Path) -> Iterator[Cgroups]:
    yield Cgroups(delegated)
    assert [path.name for path in delegated.glob("skillbus-run-*")] == []


@pytest.fixture
def within(cgroups: Cgroups, delegated: Path, make_isolation: Make) -> BubblewrapIsolation:
    return make_isolation(metering=ChosenMetering(str(delegated)))


async def held(meter: Meter, source: str, limits: Limits) -> subprocess.CompletedProcess[bytes]:
    """A Python program, outside any sandbox, that starts when it is counted and limited."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", f"input()\n{source}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    await meter.enter((process.pid,))
    meter.limit(limits)
    async with asyncio.timeout(20):
        out, _ = await process.communicate(b"go\n")
    return subprocess.CompletedProcess([], process.returncode or 0, out)


async def test_no_more_processes_are_made_than_the_limit(cgroups: Cgroups) -> None:
    source = (
        "import os, time\n"
        "made = 0\n"
        "for _ in range(30):\n"
        "    try:\n"
        "        if os.fork() == 0: os.close(1); time.sleep(9); os._exit(0)\n"
        "    except BlockingIOError: break\n"
        "    made += 1\n"
        "print(made)"
    )
    for limit, made in ((10, b"9\n"), (64, b"30\n")):  # with itself
        meter = cgroups.create_meter()
        done = await held(meter, source, Limits(processes=limit))
        assert (done.stdout, meter.get_usage().excess) == (made, None)
        await meter.leave()


async def test_memory_over_the_limit_ends_the_whole_group_and_is_told(cgroups: Cgroups) -> None:
    source = (
        "import os, time\n"
        "if os.fork() == 0: os.close(1); time.sleep(9); os._exit(0)\n"
        "data = b'x' * (40 << 20); print('took it', flush=True)"
    )
    small, large = cgroups.create_meter(), cgroups.create_meter()
    killed = await held(small, source, Limits(memory_bytes=20 * MIB))
    assert (killed.returncode, killed.stdout) == (-9, b"")
    excess = small.get_usage().excess
    await small.leave()
    assert excess is not None
    assert excess.status is RunStatus.MEMORY
    assert (await held(large, source, Limits(memory_bytes=120 * MIB))).stdout == b"took it\n"
    assert large.get_usage().excess is None
    assert 40 * MIB < (large.get_usage().peak_bytes or 50 * MIB) < 120 * MIB
    await large.leave()


async def test_leaving_ends_whatever_is_left_and_can_be_done_twice(cgroups: Cgroups, delegated: Path) -> None:
    meter = cgroups.create_meter()
    done = await held(
        meter,
        "import os, time\nif os.fork() == 0:\n    os.setsid(); os.close(1); time.sleep(30)\nprint(os.getpid())",
        Limits(),
    )
    inside = [pid for path in delegated.glob("skillbus-run-*/cgroup.procs") for pid in path.read_text().split()]
    assert len(inside) == 1
    assert done.stdout.strip().decode() not in inside
    await meter.leave()
    await meter.leave()
    assert not Path("/proc", inside[0]).exists() or "Z" in Path("/proc", inside[0], "stat").read_text()


async def test_a_share_of_the_processors_is_held_where_it_is_asked_for(delegated: Path, cgroups: Cgroups) -> None:
    shared = Cgroups(delegated, cpus=0.25)
    try:
        shared.prepare()
    except NotDelegatedError as reason:
        pytest.skip(str(reason))
    for metering, is_throttled in ((shared, True), (cgroups, False)):
        meter = metering.create_meter()
        done = await held(meter, "import time\nwhile time.process_time() < 0.5: pass", Limits())
        assert done.returncode == 0
        spent = dict(map(str.split, (meter.folder / "cpu.stat").read_text().splitlines()))
        await meter.leave()
        assert (int(spent.get("nr_throttled", 0)) > 0) == is_throttled


async def test_what_a_killed_service_left_is_removed_by_the_next(cgroups: Cgroups, delegated: Path) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    dead, living = delegated / f"skillbus-run-{gone.pid}-x", delegated / f"skillbus-run-{os.getpid()}-x"
    dead.mkdir()
    living.mkdir()
    try:
        cgroups.prepare()
        assert (dead.exists(), living.exists()) == (False, True)
    finally:
        living.rmdir()


async def test_what_was_found_once_is_found_again(delegated: Path) -> None:
    """A probe that failed is tried again by a service that has moved below what it found."""
    assert find_delegated() == delegated
    for _ in range(2):
        assert str(delegated) in ChosenMetering().prepare()


async def test_a_folder_that_is_no_cgroup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotDelegatedError, match=r"cgroup\.controllers"):
        Cgroups(tmp_path).prepare()


async def test_a_run_is_in_its_cgroup_before_its_script_begins(run: Run, within: BubblewrapIsolation) -> None:
    outcome = await run("print(open('/proc/self/cgroup').read())", within=within)
    assert b"skillbus-run-" in outcome.stdout
    assert outcome.peak_bytes is None or outcome.peak_bytes > 0
    report = await within.probe()
    assert any("held by cgroups" in note for note in report.notes)


async def test_files_in_memory_count_in_a_cgroup_and_not_with_the_watchdog(
    run: Run, within: BubblewrapIsolation
) -> None:
    source = (
        "for folder in ('/work', '/tmp'):\n"
        "    with open(folder + '/x', 'wb') as file:\n"
        "        for _ in range(30): file.write(bytes(1 << 20))\n"
        "print('written')"
    )
    limits = Limits(wall_s=20, memory_bytes=48 * MIB)
    assert (await run(source, limits=limits)).stdout == b"written\n"
    outcome = await run(source, limits=limits, within=within)
    assert (outcome.status, outcome.exit_code, outcome.stdout) == (RunStatus.MEMORY, None, b"")


async def test_a_tree_of_small_processes_is_ended_by_the_kernel(run: Run, within: BubblewrapIsolation) -> None:
    source = (
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0: data = b'x' * (30 << 20); time.sleep(1); os._exit(0)\n"
        "for _ in range(4): os.wait()"
    )
    outcome = await run(source, limits=Limits(wall_s=20, memory_bytes=80 * MIB), within=within)
    assert (outcome.status, outcome.exit_code) == (RunStatus.MEMORY, None)
    assert "80 MiB" in outcome.detail
    assert (await run(source, within=within)).status is RunStatus.OK


async def test_inodes_are_still_counted(run: Run, within: BubblewrapIsolation) -> None:
    source = "import os, time\nfor n in range(900): os.close(os.open(f'/tmp/{n}', os.O_CREAT))\ntime.sleep(5)"
    outcome = await run(source, limits=Limits(wall_s=20, inodes=500), within=within)
    assert outcome.status is RunStatus.INODES
