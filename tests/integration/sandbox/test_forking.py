"""The fork server, and the agents that it makes: what they may do, what they share, and what comes when it ends."""

import asyncio
import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap import process
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkPlan, ForkServer
from skillbus.sandbox.adapters.bubblewrap.installation import find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.launcher import InheritedNumbers, Launcher
from skillbus.sandbox.adapters.bubblewrap.pool import PROJECTS_MAX
from skillbus.sandbox.adapters.bubblewrap.profile import NODE_BOOT, AgentEntry, Warm
from skillbus.sandbox.adapters.host import wait_readable
from skillbus.sandbox.adapters.inside import read_agent_sources
from skillbus.sandbox.domain.errors import SandboxBroken, SandboxUnavailable
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec

from .conftest import USER

Run = Callable[..., Coroutine[object, object, RunOutcome]]
Make = Callable[..., BubblewrapIsolation]

LAYOUT = "import sys; print(id(sys), hash('seed'), open('/proc/self/maps').readline().split()[0])"


def servers() -> list[int]:
    """Children of this process that run the program of the fork server, which takes a file besides its channel."""
    return [pid for pid, arguments in helpers() if len(arguments) > 1]


def launchers() -> list[int]:
    """Children of this process that run the program of the launcher."""
    return [pid for pid, arguments in helpers() if len(arguments) == 1]


def helpers() -> Iterator[tuple[int, list[bytes]]]:
    """Yield process id and arguments of each program of ours that has the user of the runs."""
    for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
        _, found, rest = read_command(pid).partition(b"-I\0-S\0-B\0/proc/self/fd/")
        if found:
            yield pid, rest.rstrip(b"\0").split(b"\0")[1:]


def read_command(pid: int) -> bytes:
    """Return the command line of a process; empty if it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def facts(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_a_script_has_no_parent_and_sees_no_process_but_process_1(
    run: Run, isolation: BubblewrapIsolation
) -> None:
    if (await isolation.probe()).level is IsolationLevel.CONTAINER:
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
async def test_so_many_runs_share_an_address_layout(
    forks: int, layouts: int, run_within: Run, make_isolation: Make
) -> None:
    async with make_isolation(forks=forks, levels=(IsolationLevel.FULL,)) as isolation:
        if forks == 2:
            await run_within("pass", within=isolation)  # the probe was the first
        found = [(await run_within(LAYOUT, within=isolation)).stdout for _ in range(4)]
    assert len(set(found)) == layouts, found


async def test_many_at_once_are_answered_while_the_interpreter_is_replaced(
    run_within: Run, make_isolation: Make
) -> None:
    async with make_isolation(forks=2, levels=(IsolationLevel.FULL,)) as isolation:
        layouts = await asyncio.gather(*(run_within(LAYOUT, within=isolation) for _ in range(24)))
        assert max(Counter(outcome.stdout for outcome in layouts).values()) <= 2
        outcomes = await asyncio.gather(
            *(run_within("import os; print(sorted(os.environ))", within=isolation) for _ in range(24))
        )
    assert {(outcome.status, outcome.stdout) for outcome in outcomes} == {(RunStatus.OK, outcomes[0].stdout)}


@pytest.mark.parametrize("warm", [0, 1])
async def test_runs_of_different_projects_share_no_address_layout(
    warm: int, make_isolation: Make, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text(LAYOUT)
    found = dict[str, set[bytes]]()
    async with make_isolation(warm=warm, forks=1000, levels=(IsolationLevel.FULL,)) as isolation:
        for project in ("default", "other") * 3:
            if warm and found.keys() >= {project}:

                async def settled() -> int:
                    return isolation.missing

                await eventually(settled, lambda missing: missing == 0)
            spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON, project=project)
            found.setdefault(project, set()).add((await isolation.run(spec)).stdout)
    assert [len(layouts) for layouts in found.values()] == [1, 1]
    assert found["default"] != found["other"]


@pytest.mark.serial
async def test_fork_servers_and_warm_sandboxes_are_those_of_the_last_projects_only(
    make_isolation: Make, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text("print('there')")
    before = set(servers())
    async with make_isolation(warm=1, levels=(IsolationLevel.FULL,)) as isolation:
        for number in (*range(PROJECTS_MAX + 3), 0):
            spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON, project=f"project-{number}")
            assert (await isolation.run(spec)).stdout == b"there\n"
        await isolation.wait_until_clean()

        async def count() -> tuple[int, int]:
            return len([pid for pid in set(servers()) - before if facts(pid)["State"][0] != "Z"]), isolation.waiting

        assert await eventually(count, lambda found: found == (PROJECTS_MAX, PROJECTS_MAX)) == (
            PROJECTS_MAX,
            PROJECTS_MAX,
        )
        last = {f"project-{number}" for number in (*range(4, PROJECTS_MAX + 3), 0)}
        assert isolation._starter._servers.keys() == isolation._pools._pools.keys() == last
    assert set(servers()) <= before  # those that earlier tests left may have been collected since


async def test_no_project_is_given_up_while_it_runs_skills_and_excess_ones_are_afterwards(
    make_isolation: Make, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text("import time; print('begun', flush=True); time.sleep(20)")
    projects = [f"p{number}" for number in range(PROJECTS_MAX + 2)]
    begun = set[str]()
    async with make_isolation(warm=1, levels=(IsolationLevel.FULL,)) as isolation:
        await isolation.probe()

        async def run(project: str) -> None:
            control = RunControl(hear=lambda *_: begun.add(project))
            await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, project=project), control)

        async def list_served() -> set[str]:
            return begun & isolation._starter._servers.keys()

        runs = [asyncio.create_task(run(project)) for project in projects]
        await eventually(list_served, lambda served: served == set(projects), wait_s=60)
        assert isolation._pools._pools.keys() == set(projects)
        for going_on in runs:
            going_on.cancel()
        await asyncio.wait(runs)
        await isolation.wait_until_clean()
        kept = isolation._pools._pools.keys()
        assert isolation._starter._servers.keys() == kept <= set(projects)
        assert len(kept) == PROJECTS_MAX


async def test_a_node_whose_start_is_cancelled_ends_before_its_agent_has_reported(
    make_isolation: Make, processes: Callable[[], list[int]]
) -> None:
    async with make_isolation(levels=(IsolationLevel.FULL,)) as isolation:
        await isolation.probe()
        isolation._starter._node_boot = b"setTimeout(() => {}, 60000)"  # it never says that it is ready

        async def list_nodes() -> list[int]:
            commands = {pid: read_command(pid) for pid in processes()}
            return [pid for pid, command in commands.items() if command.endswith(f"node\0{NODE_BOOT}\0".encode())]

        starting = asyncio.create_task(isolation._start_warm("default", Warm.NODE))
        await eventually(list_nodes, bool)
        starting.cancel()
        await asyncio.wait({starting}, timeout=5)
        assert starting.cancelled()


@pytest.mark.serial
async def test_a_fork_server_that_ended_is_started_again_and_a_run_of_it_goes_on(
    make_isolation: Make, processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text(
        "import sys, time; print('begun', flush=True); time.sleep(float(sys.argv[1])); print('there')"
    )
    before = set(servers())
    async with make_isolation() as isolation:

        async def run(seconds: str, begun: asyncio.Event) -> bytes:
            control = RunControl(hear=lambda *_: begun.set())
            return (await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, (seconds,)), control)).stdout

        await run("0", asyncio.Event())
        (server,) = set(servers()) - before
        begun = asyncio.Event()
        going_on = asyncio.create_task(run("0.5", begun))
        async with asyncio.timeout(5):
            await begun.wait()
        os.kill(server, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, server, os.WEXITED | os.WNOWAIT)
        with capture_logs() as logs:
            assert await run("0", asyncio.Event()) == b"begun\nthere\n"
        assert await going_on == b"begun\nthere\n"
        assert [entry["log_level"] for entry in logs if entry["event"] == "fork_server_ended"] == ["warning"]
        assert server not in servers()

    async def left() -> list[int]:
        return processes()

    # The agent of that run is an orphan, and whoever buries those of this machine does it in its own time.
    await eventually(left, lambda pids: not pids, wait_s=30)


@pytest.mark.serial
async def test_a_launcher_that_ended_takes_its_sandboxes_along_and_another_one_starts_the_next(
    make_isolation: Make, processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text(
        "import sys, time; print('begun', flush=True); time.sleep(float(sys.argv[1])); print('there')"
    )
    before = set(launchers())
    async with make_isolation(warm=1) as isolation:
        begun = asyncio.Event()
        control = RunControl(hear=lambda *_: begun.set())
        going_on = asyncio.create_task(isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, ("60",)), control))
        async with asyncio.timeout(20):
            await begun.wait()
        (launcher,) = set(launchers()) - before
        assert facts(launcher)["NoNewPrivs"] == "1"

        async def count_warm() -> int:
            return isolation.waiting

        await eventually(count_warm, lambda waiting: waiting == 1)
        with capture_logs() as logs:
            os.kill(launcher, signal.SIGKILL)
            await asyncio.to_thread(os.waitid, os.P_PID, launcher, os.WEXITED | os.WNOWAIT)
            # The sandbox that waits may not have heard yet that it ends: it serves no run any more.
            outcome = await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, ("0",)))
            async with asyncio.timeout(20):
                assert (await going_on).status is RunStatus.KILLED
        assert outcome.stdout == b"begun\nthere\n"
        assert [entry["log_level"] for entry in logs if entry["event"] == "launcher_ended"] == ["warning"]
    assert set(launchers()) <= before

    async def left() -> list[int]:
        return processes()

    # Bubblewrap was orphaned, and whoever buries orphans of this machine does it in its own time.
    await eventually(left, lambda pids: not pids, wait_s=30)


@pytest.mark.serial
async def test_a_fork_server_that_hangs_is_replaced_and_keeps_nothing(
    make_isolation: Make, processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text("print('ran')")
    spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON)
    before = set(servers())
    async with make_isolation(start_s=60.0) as isolation:
        await isolation.run(spec)
        (server,) = set(servers()) - before
        os.kill(server, signal.SIGSTOP)
        try:
            isolation._starter._start_s = 1.0
            with pytest.raises(SandboxBroken, match=r"did not start in 1 s"):
                await isolation.run(spec)
            isolation._starter._start_s = 60.0
            await isolation.wait_until_clean()
            assert not processes()
            assert (await isolation.run(spec)).stdout == b"ran\n"
        finally:
            os.kill(server, signal.SIGCONT)


@pytest.mark.serial
async def test_a_launcher_that_hangs_is_replaced_and_does_not_start_afterwards_what_was_given_up(
    make_isolation: Make, processes: Callable[[], list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_ATTACH_S", 0.05)
    tmp_path.joinpath("main.py").write_text("print('ran')")
    spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON)
    before = set(launchers())
    async with make_isolation(start_s=60.0) as isolation:
        await isolation.run(spec)
        (launcher,) = set(launchers()) - before
        os.kill(launcher, signal.SIGSTOP)
        try:
            isolation._starter._start_s = 1.0
            with pytest.raises(SandboxBroken, match=r"did not start in 1 s"):
                await isolation.run(spec)
            isolation._starter._start_s = 60.0
            assert (await isolation.run(spec)).stdout == b"ran\n"
        finally:
            os.kill(launcher, signal.SIGCONT)
        (former,) = isolation._starter._former_launchers
        await wait_until_served(former)
        assert not processes()


async def wait_until_served(launcher: Launcher) -> None:
    """Wait until the launcher has served everything that was asked of it before, and a last program has ended."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        given = InheritedNumbers(*[theirs.fileno()] * 3)
        await launcher.launch_program(("/bin/true",), {}, given, theirs.fileno())
        theirs.close()
        ours.setblocking(False)
        async with asyncio.timeout(20):
            await wait_readable(ours.fileno())
            _, passed, _, _ = socket.recv_fds(ours, 4, 1)
            for process in passed:
                await wait_readable(process)
                os.close(process)


async def test_a_fork_server_outlives_many_interpreters(make_isolation: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hears what it says but the first time, and a socket that nobody reads is full after a few words."""
    make_pair, narrowed = socket.socketpair, list[socket.socket]()

    def make_narrow_pair(*kind: int) -> tuple[socket.socket, socket.socket]:
        ours, other = make_pair(*kind)
        if kind[1:] == (socket.SOCK_SEQPACKET,):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel's least: room for ten words
            narrowed.append(other)
        return ours, other

    monkeypatch.setattr(socket, "socketpair", make_narrow_pair)
    async with make_isolation(forks=1, start_s=60.0) as isolation:
        await isolation.probe()
        server = isolation._starter._servers["default"]
        assert narrowed
        nothing = os.open("/dev/null", os.O_RDWR)
        for _ in range(30):
            ends = socket.socketpair()  # a sandbox whose process 1 has ended
            ends[0].close()
            passed = (nothing, ends[1].fileno(), nothing, nothing, nothing)
            await server.fork_agent(AgentEntry(0, {}, network=False, warm=None), passed)
            ends[1].close()
        os.close(nothing)
        async with asyncio.timeout(20):
            assert (await isolation.probe()).level
            ready = await isolation._starter.start_sandbox(IsolationLevel.FULL, Limits(), "default")
        await ready.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start it as a user whose processes are limited")
async def test_a_fork_that_fails_is_heard_of_by_who_waits_for_it_and_the_next_may_not(tmp_path: Path) -> None:
    python = find_installation().runtimes[Runtime.PYTHON]
    limited = tmp_path / "python"
    limited.write_text(
        f'#!/bin/sh\nexec setpriv --reuid {USER} --regid {USER} --clear-groups prlimit --nproc=2 -- {python} "$@"\n'
    )
    limited.chmod(0o755)
    plan = ForkPlan((str(limited),), {"PATH": "/usr/bin:/bin"}, read_agent_sources(), (b"", b""), forks=9)
    other = await asyncio.create_subprocess_exec("/bin/sleep", "60", user=USER)
    server = await ForkServer.open(plan, 10)
    try:
        assert await said_by_agent(server) == (b"", b"")
        other.kill()
        await other.wait()
        host, words = await said_by_agent(server)
        assert (host, b"the sandbox could not be entered" in words) == (b"", True), words
    finally:
        server.close()
        if other.returncode is None:
            other.kill()
            await other.wait()


async def said_by_agent(server: ForkServer) -> tuple[bytes, bytes]:
    """To the host, and to standard error, in a sandbox whose process 1 is none."""
    (host, control), (first, other) = socket.socketpair(), socket.socketpair()
    reading, writing = os.pipe()
    nothing = os.open("/dev/null", os.O_RDWR)
    first.send(b"\1")
    try:
        entry = AgentEntry(0, {}, network=False, warm=None)
        await server.fork_agent(entry, (nothing, other.fileno(), control.fileno(), nothing, writing))
        control.close()
        os.close(writing)
        host.settimeout(10)
        with os.fdopen(reading, "rb") as words:
            return await asyncio.to_thread(host.recv, 1), await asyncio.to_thread(words.read)
    finally:
        os.close(nothing)
        for end in (host, first, other):
            end.close()


@pytest.mark.serial
async def test_a_run_that_is_cancelled_while_it_is_collected_ends_at_once(make_isolation: Make, tmp_path: Path) -> None:
    tmp_path.joinpath("main.py").write_text(
        "for n in range(8): open(f'/work/out/{n}', 'wb').write(b'x' * (4 << 20))\nprint('left')"
    )
    began = time.monotonic()
    async with make_isolation() as isolation:
        await isolation.probe()
        for after_ms in range(20, 140, 10):
            task = asyncio.create_task(isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON)))
            await asyncio.wait([task], timeout=after_ms / 1000)
            task.cancel()
            await asyncio.wait([task])
            await isolation.wait_until_clean()
    assert time.monotonic() - began < 10


async def test_however_many_descriptors_the_service_has_a_script_has_three(
    make_isolation: Make, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    tmp_path.joinpath("main.py").write_text("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    tmp_path.joinpath("main.sh").write_text("for each in /proc/$$/fd/*; do readlink $each; done")
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        async with make_isolation(levels=(IsolationLevel.FULL,)) as isolation:
            python = await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON))
            bash = await isolation.run(RunSpec(tmp_path, "main.sh", Runtime.BASH))
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert python.stdout == b"[0, 1, 2]\n", python
    assert b"/skill/main.sh" in bash.stdout.splitlines(), "which bash reads as it goes"
    assert b"memfd" not in bash.stdout, bash


async def test_runs_share_nothing_by_the_description_of_an_empty_standard_input(
    make_isolation: Make, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text(
        "import fcntl, os, struct\n"
        "print(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK, os.path.exists('/proc/self/fd/0'))\n"
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)\n"
    )
    async with make_isolation(levels=(IsolationLevel.FULL,)) as isolation:
        found = [(await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON))).stdout for _ in range(2)]
    assert found == [b"0 True\n"] * 2


async def test_an_interpreter_that_does_not_start_is_said_to_be_it(make_isolation: Make) -> None:
    host = find_installation()
    broken = replace(host, runtimes={**host.runtimes, Runtime.PYTHON: Path("/bin/false")})
    with pytest.raises(SandboxUnavailable, match="/bin/false does not work"):
        await make_isolation(installation=broken).probe()
