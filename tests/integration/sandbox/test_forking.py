"""The fork server, and the agents that it makes: what they may do, what they share, and what comes when it ends."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from skillbus.common.testing import eventually
from skillbus.contracts.indexer import Runtime
from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.installation import find_installation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import Level, RunOutcome, RunSpec

Run = Callable[..., Coroutine[object, object, RunOutcome]]
Make = Callable[..., BubblewrapIsolation]

LAYOUT = "import sys; print(id(sys), hash('seed'), open('/proc/self/maps').readline().split()[0])"


def servers() -> list[int]:
    """Children of this process that run the program of the fork server."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if b"-I\0-S\0-B\0/proc/self/fd/" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def facts(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_a_script_has_no_parent_and_sees_no_process_but_process_1(
    run: Run, isolation: BubblewrapIsolation
) -> None:
    if (await isolation.probe()).level is Level.CONTAINER:
        pytest.skip("there is no /proc at this level")
    outcome = await run(
        "import os; print(os.getppid(), sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))"
    )
    parent, seen = outcome.stdout.decode().split(" ", 1)
    assert (parent, seen.count(",")) == ("0", 1)


async def test_an_agent_that_waits_has_the_run_s_user_and_no_more_than_a_script(make_isolation: Make) -> None:
    async with make_isolation(warm=1) as isolation:
        await isolation.probe()
        async with asyncio.timeout(10):
            while not isolation.waiting:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        here = Path("/proc/self/ns/user").readlink()
        # The fork server gives its forks its own name.
        agents = [pid for pid in isolation.waiting_pids if facts(pid)["Name"] == "python3"]
        assert len(agents) == 2, "the agent, and the script's process"
        for pid in agents:
            found = facts(pid)
            assert {found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
            assert (found["NoNewPrivs"], found["Seccomp"], found["Groups"]) == ("1", "2", "")
            if os.geteuid() == 0:
                assert "0" not in found["Uid"].split()
                assert Path(f"/proc/{pid}/ns/user").readlink() != here


async def test_orphans_are_buried_while_the_run_goes_on(run: Run) -> None:
    outcome = await run(
        "import os\n"
        "for _ in range(100):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "print('made')",
        limits=Limits(wall_s=20, processes=12),
    )
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"made\n"), outcome


@pytest.mark.parametrize(("forks", "layouts"), [(1, 4), (2, 2), (100, 1)])
async def test_so_many_runs_share_an_address_layout(forks: int, layouts: int, run: Run, make_isolation: Make) -> None:
    async with make_isolation(forks=forks, levels=(Level.FULL,)) as isolation:
        if forks == 2:
            await run("pass", within=isolation)  # the probe was the first
        found = [(await run(LAYOUT, within=isolation)).stdout for _ in range(4)]
    assert len(set(found)) == layouts, found


async def test_many_at_once_are_answered_while_the_interpreter_is_replaced(run: Run, make_isolation: Make) -> None:
    async with make_isolation(forks=2) as isolation:
        outcomes = await asyncio.gather(
            *(run("import os; print(sorted(os.environ))", within=isolation) for _ in range(24))
        )
    assert {(outcome.status, outcome.stdout) for outcome in outcomes} == {(RunStatus.OK, outcomes[0].stdout)}


async def test_a_fork_server_that_ended_is_started_again_and_a_run_of_it_goes_on(
    make_isolation: Make, processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text("import sys, time; time.sleep(float(sys.argv[1])); print('there')")
    before = set(servers())
    async with make_isolation() as isolation:

        async def run(seconds: str) -> bytes:
            return (await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, (seconds,)))).stdout

        await run("0")
        (server,) = set(servers()) - before
        going_on = asyncio.create_task(run("0.5"))
        await asyncio.sleep(0.2)
        os.kill(server, signal.SIGKILL)
        await asyncio.sleep(0.1)
        with capture_logs() as logs:
            assert await run("0") == b"there\n"
        assert await going_on == b"there\n"
        assert [entry["log_level"] for entry in logs if entry["event"] == "fork_server_ended"] == ["warning"]
        assert server not in servers()

    async def left() -> list[int]:
        return processes()

    # The agent of that run is an orphan, and whoever buries those of this machine does it in its own time.
    await eventually(left, lambda pids: not pids, wait_s=30)


async def test_an_interpreter_that_does_not_start_is_said_to_be_it(make_isolation: Make) -> None:
    host = find_installation()
    broken = replace(host, runtimes={**host.runtimes, Runtime.PYTHON: Path("/bin/false")})
    with pytest.raises(SandboxUnavailable, match="/bin/false does not work"):
        await make_isolation(installation=broken).probe()
