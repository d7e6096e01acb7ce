"""How runs end before their time, what is kept of them then, and what their scripts are given.

Attacks are in `tests/abuse`.
"""

import asyncio
import os
import select
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.installation import find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import USER, BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.probe import end_left_processes
from skillbus.sandbox.adapters.bubblewrap.profile import change_user
from skillbus.sandbox.adapters.kernel.watchdog import is_ending
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec

from ...abuse.model import find_runtime

Run = Callable[..., "asyncio.Future[RunOutcome]"]
Check = Callable[[], Coroutine[object, object, None]]


@pytest.mark.spec("tool-system.md § SkillsSandboxExecutor: 清理环境变量, 限制文件系统")
async def test_the_environment_holds_nothing_of_the_service(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_CANARY", "secret-value")
    outcome = await run(
        "import pathlib\n"
        "for file in pathlib.Path('/proc').glob('[0-9]*/environ'):\n"
        "    try: print(file.read_bytes())\n"
        "    except OSError as error: print(error)\n"
        "import os; print(sorted(os.environ))"
    )
    assert b"secret-value" not in outcome.stdout
    names = ["HOME", "LANG", "PATH", "PWD", "SKILLBUS_IN", "SKILLBUS_OUT", "TMPDIR"]
    assert outcome.stdout.decode().splitlines()[-1] == str(names)


@pytest.mark.spec("tool-system.md § SkillsSandboxExecutor: 10MB输出")
@pytest.mark.parametrize("streams", ["1", "2", "12"])
async def test_output_is_cut_exactly_at_the_limit_over_both_streams(streams: str, run: Run) -> None:
    flood = "import os, sys\nfor n in range(64):\n    for fd in sys.argv[1]: os.write(int(fd), b'x' * 65536)"
    outcome = await run(flood, streams, limits=Limits(wall_s=20, output_bytes=MIB))
    assert (outcome.status, outcome.truncated) == (RunStatus.OUTPUT, True)
    assert len(outcome.stdout) + len(outcome.stderr) == MIB
    whole = await run(flood, streams)
    assert (whole.status, whole.truncated) == (RunStatus.OK, False)
    assert len(whole.stdout) + len(whole.stderr) == 64 * 65536 * len(streams)


@pytest.mark.serial
async def test_pages_shared_by_forks_are_counted_once(run: Run) -> None:
    outcome = await run(
        "import os, time\n"
        "data = bytearray(b'x') * (30 << 20)\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0: time.sleep(0.5); os._exit(0)\n"
        "for _ in range(5): os.wait()\n",
        limits=Limits(wall_s=20, memory_bytes=100 * MIB),
    )
    assert outcome.status is RunStatus.OK, outcome.detail


async def test_artifacts_are_capped_in_number_and_in_size(run: Run) -> None:
    many = await run("for n in range(9): open(f'/work/out/{n}', 'w').close()", limits=Limits(wall_s=20, artifacts=4))
    assert (len(many.artifacts), many.truncated) == (4, True)
    sparse = await run("open('/work/out/a', 'w').write('x'); open('/work/out/b', 'w').truncate(16 << 20)")
    assert [artifact.name for artifact in sparse.artifacts] == ["a", "b"]
    large = await run(
        "open('/work/out/a', 'w').write('x'); open('/work/out/b', 'w').truncate(2000)",
        limits=Limits(wall_s=20, artifacts_bytes=1000),
    )
    assert ([artifact.name for artifact in large.artifacts], large.truncated) == (["a"], True)


async def test_cancelling_the_task_ends_the_whole_tree(
    run: Run, processes: Callable[[], list[int]], nothing_runs: Check
) -> None:
    task = asyncio.ensure_future(run("import os, time\nfor _ in range(3): os.fork()\ntime.sleep(20)"))
    async with asyncio.timeout(5):
        while len(processes()) < 8:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nothing_runs()


@pytest.mark.parametrize("after_ms", [0, 1, 2, 4, 8, 12, 16, 24, 32, 48])
async def test_cancelling_while_the_sandbox_starts_leaves_nothing(after_ms: int, run: Run, nothing_runs: Check) -> None:
    task = asyncio.ensure_future(run("import time; time.sleep(20)"))
    await asyncio.wait([task], timeout=after_ms / 1000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nothing_runs()


async def test_a_script_that_crashes_says_by_which_signal(run: Run) -> None:
    outcome = await run("import ctypes; ctypes.string_at(0)")
    assert (outcome.status, outcome.exit_code) == (RunStatus.KILLED, None)
    assert "SIGSEGV" in outcome.detail


LEAVES_BEHIND = {
    "main.py": "import os, signal, time\n"
    "print(os.readlink('/proc/self/ns/pid'), flush=True)\n"
    "for _ in range(3):\n"
    "    if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(20)\n",
    "main.sh": "readlink /proc/self/ns/pid; for n in 1 2 3; do (trap '' TERM; sleep 20) & done",
    "main.js": "console.log(require('fs').readlinkSync('/proc/self/ns/pid'));"
    "const apart = {detached: true, stdio: 'ignore'};"
    "for (let n = 0; n < 3; n++) require('child_process').spawn('sleep', ['20'], apart).unref()",
}


def processes_of(namespace: str) -> list[int]:
    """All but one that is dead, and that bubblewrap has not buried yet."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str((folder / "ns/pid").readlink()) == namespace and not is_ending(int(folder.name)):
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@pytest.mark.parametrize("name", LEAVES_BEHIND)
async def test_when_a_run_has_returned_no_process_of_its_sandbox_is_left(
    name: str, run: Run, isolation: BubblewrapIsolation
) -> None:
    if find_runtime(name) not in (await isolation.probe()).runtimes:
        pytest.skip("Node is not installed")
    for _ in range(3):
        outcome = await run(LEAVES_BEHIND[name], name=name)
        left = processes_of(namespace := outcome.stdout.decode().strip())
        assert namespace.startswith("pid:["), outcome
        assert left == []


async def test_whoever_has_something_to_do_meanwhile_waits_for_the_last_process_later(
    isolation: BubblewrapIsolation, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text(LEAVES_BEHIND["main.py"])
    for _ in range(3):
        async with AsyncExitStack() as ends:
            spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON)
            outcome = await isolation.run(spec, RunControl(ends=ends))
        assert processes_of(outcome.stdout.decode().strip()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root has another user for its runs")
def test_a_sandbox_that_lost_bubblewrap_during_its_start_is_ended_by_the_next_service() -> None:
    user = USER + 100
    enter = (*change_user(find_installation(), user), "unshare", "--user", "--pid", "--fork")
    with subprocess.Popen((*enter, "sh", "-c", "echo started; exec sleep 60"), stdout=subprocess.PIPE) as bubblewrap:
        assert bubblewrap.stdout is not None
        assert bubblewrap.stdout.readline() == b"started\n"
        pid = int(Path(f"/proc/{bubblewrap.pid}/task/{bubblewrap.pid}/children").read_text())
        first = os.pidfd_open(pid)
        try:
            assert end_left(user) == []
            bubblewrap.kill()
            bubblewrap.wait()
            assert end_left(user) == [pid]
            assert select.select([first], [], [], 5)[0]
        finally:
            os.close(first)


def end_left(user: int) -> list[object]:
    """Return the processes that were ended."""
    with capture_logs() as logs:
        end_left_processes(user)
    return [entry["pid"] for entry in logs if entry["event"] == "sandbox_process_left"]
