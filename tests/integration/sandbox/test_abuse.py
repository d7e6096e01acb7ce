"""Attacks, each bounded by itself as well. "Weakened": the same attack is shown to work without the wall."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.profile import Plan, command_line
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.limits import MIB, Limits
from skillbus.sandbox.domain.run import Level, RunOutcome

Run = Callable[..., "asyncio.Future[RunOutcome]"]
Make = Callable[..., BubblewrapIsolation]
Check = Callable[[], Coroutine[object, object, None]]


class Unchecked(BubblewrapIsolation):
    """Runs whatever the probe would say: to try attacks on a weakened profile."""

    async def probe(self) -> IsolationReport:
        return IsolationReport(Level.FULL, "weakened")


def weakened(without: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> BubblewrapIsolation:
    """Isolation without some flags (and the value of `--seccomp`), with `more` before the root becomes read-only."""

    def profile(plan: Plan) -> tuple[str, ...]:
        argv = list(command_line(plan))
        for flag in without:
            at = argv.index(flag)
            del argv[at : at + (2 if flag == "--seccomp" else 1)]
        at = len(argv) - 1 - argv[::-1].index("--remount-ro")
        return (*argv[:at], *more, *argv[at:])

    return Unchecked(profile=profile)


CONNECT = """
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2): print("connected")
except OSError as error: print("refused", error)
"""


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_port_of_the_host_s_loopback_is_out_of_reach(run: Run, port: int) -> None:
    assert (await run(CONNECT, str(port))).stdout.startswith(b"refused")
    bash = await run('(: < "/dev/tcp/127.0.0.1/$1") && echo connected', str(port), name="a.sh")
    assert (bash.exit_code, bash.stdout) == (1, b"")


async def test_weakened_the_port_is_reached_and_each_wall_alone_closes_it(run: Run, port: int) -> None:
    open_wide = weakened(without=("--unshare-net", "--seccomp"))
    assert (await run(CONNECT, str(port), within=open_wide)).stdout == b"connected\n"
    for left_standing in ("--unshare-net", "--seccomp"):
        one_wall = weakened(without=tuple({"--unshare-net", "--seccomp"} - {left_standing}))
        assert (await run(CONNECT, str(port), within=one_wall)).stdout.startswith(b"refused")


async def test_a_readable_file_of_the_host_is_invisible_unless_weakened(run: Run) -> None:
    canary = Path(f"/var/tmp/skillbus-canary-{uuid4().hex}")
    canary.write_text("secret")
    canary.chmod(0o644)
    source = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text())"
    try:
        held = await run(source, str(canary))
        shown = await run(source, str(canary), within=weakened(more=("--ro-bind", "/var/tmp", "/var/tmp")))
    finally:
        canary.unlink()
    assert held.exit_code == 1
    assert b"secret" not in held.stdout + held.stderr
    assert shown.stdout == b"secret\n"


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


async def test_a_script_has_no_privilege_left(run: Run) -> None:
    outcome = await run("import os; print(os.getuid() != 0); print(open('/proc/self/status').read())")
    status = dict(line.split(":\t") for line in outcome.stdout.decode().splitlines() if ":\t" in line)
    assert outcome.stdout.startswith(b"True")
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert all(int(status[kind], 16) == 0 for kind in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"))


DANGEROUS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in (272, 308, 165, 155, 161, 101, 310, 311, 438, 321, 425, 323, 298, 250, 319, 29, 240, 429, 435, 442):
    ctypes.set_errno(0)
    found = libc.syscall(number, 0x10000000, 0, 0, 0, 0, 0)
    if found != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS): print(number, found, ctypes.get_errno())
"""


async def test_dangerous_system_calls_are_closed_unless_weakened(run: Run) -> None:
    assert (await run(DANGEROUS)).stdout == b""
    assert (await run(DANGEROUS, within=weakened(without=("--seccomp",)))).stdout != b""


async def test_process_1_can_be_neither_read_nor_ended_nor_its_socket_reached(run: Run) -> None:
    outcome = await run(
        "import os, signal\n"
        "for attempt in (lambda: open('/proc/1/mem', 'r+b'), lambda: os.listdir('/proc/1/fd'),\n"
        "                lambda: open('/proc/1/environ')):\n"
        "    try: attempt(); print('reached')\n"
        "    except OSError: pass\n"
        "for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP): os.kill(1, number)\n"
        "print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))"
    )
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"['0', '1', '2'] 4\n")


async def test_only_work_and_temporary_folders_can_be_written_and_both_have_an_end(run: Run) -> None:
    outcome = await run(
        "import os\n"
        "for folder in ('/', '/skill', '/usr', '/etc', '/dev', '/in', '/proc'):\n"
        "    try: os.mkdir(folder + '/x'); print('wrote', folder)\n"
        "    except OSError: pass\n"
        "for folder in ('/work', '/tmp', '/dev/shm'):\n"
        "    try:\n"
        "        for n in range(20):\n"
        "            with open(f'{folder}/{n}', 'wb') as file: file.write(bytes(1 << 20))\n"
        "        print('endless', folder)\n"
        "    except OSError as error: print(error.errno, n)\n",
        limits=Limits(wall_s=20, work_bytes=4 * MIB, tmp_bytes=5 * MIB, shm_bytes=6 * MIB),
    )
    assert outcome.stdout == b"28 4\n28 5\n28 6\n"


async def test_the_wall_clock_ends_a_tree_that_ignores_signals(run: Run) -> None:
    outcome = await run(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0: os.setsid(); break\n"
        "print('started', flush=True)\n"
        "time.sleep(30)",
        limits=Limits(wall_s=0.7),
    )
    assert (outcome.status, outcome.exit_code) == (RunStatus.TIMEOUT, None)
    assert b"started" in outcome.stdout
    assert outcome.duration_ms < 5000


async def test_a_process_that_burns_cpu_is_ended_by_its_own_limit(run: Run) -> None:
    outcome = await run("while True: pass", limits=Limits(wall_s=20, cpu_s=1))
    assert outcome.status is RunStatus.CPU


async def test_a_script_that_stops_itself_is_ended_by_the_clock(run: Run) -> None:
    outcome = await run("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", limits=Limits(wall_s=0.5))
    assert outcome.status is RunStatus.TIMEOUT


@pytest.mark.parametrize("streams", ["1", "2", "12"])
async def test_output_is_cut_exactly_at_the_limit_over_both_streams(streams: str, run: Run) -> None:
    flood = "import os, sys\nfor n in range(64):\n    for fd in sys.argv[1]: os.write(int(fd), b'x' * 65536)"
    outcome = await run(flood, streams, limits=Limits(wall_s=20, output_bytes=MIB))
    assert (outcome.status, outcome.truncated) == (RunStatus.OUTPUT, True)
    assert len(outcome.stdout) + len(outcome.stderr) == MIB
    whole = await run(flood, streams)
    assert (whole.status, whole.truncated) == (RunStatus.OK, False)
    assert len(whole.stdout) + len(whole.stderr) == 64 * 65536 * len(streams)


async def test_one_process_cannot_take_more_memory_than_its_limit(run: Run) -> None:
    source = "data = bytearray(96 << 20); print('took it')"
    assert (await run(source, limits=Limits(wall_s=20, memory_bytes=64 * MIB))).stdout == b""
    assert (await run(source)).stdout == b"took it\n"


@pytest.mark.parametrize("kind", ["private", "shared"])
async def test_a_tree_of_small_processes_is_ended_at_the_limit_of_the_whole(kind: str, run: Run) -> None:
    source = (
        "import mmap, os, sys, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        data = mmap.mmap(-1, 40 << 20, mmap.MAP_PRIVATE if sys.argv[1] == 'private' else mmap.MAP_SHARED)\n"
        "        for at in range(0, len(data), 4096): data[at] = 1\n"
        "        time.sleep(1.5); os._exit(0)\n"
        "for _ in range(4): os.wait()\n"
    )
    small = await run(source, kind, limits=Limits(wall_s=20, memory_bytes=96 * MIB))
    assert (small.status, small.exit_code) == (RunStatus.MEMORY, None)
    assert (await run(source, kind)).status is RunStatus.OK


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


FORKS = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0: time.sleep(5); os._exit(0)
    except BlockingIOError: break
    made += 1
print(made)
"""


async def test_processes_are_capped_and_all_of_them_end_with_the_run(run: Run) -> None:
    few = await run(FORKS, "20", limits=Limits(wall_s=20, processes=10))
    assert 5 <= int(few.stdout) < 10
    assert few.duration_ms < 4000, "the sleepers were not waited for"
    many = await run(FORKS, "200")
    assert 50 <= int(many.stdout) < 64
    weak = await run(FORKS, "80", limits=Limits(wall_s=20, processes=1000))
    assert int(weak.stdout) == 80


async def test_a_daemon_that_holds_the_output_does_not_hold_the_result(run: Run) -> None:
    outcome = await run(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(20)\nprint('done')"
    )
    assert outcome.status is RunStatus.OK
    assert outcome.duration_ms < 5000


async def test_files_without_content_are_counted_unless_weakened(run: Run) -> None:
    source = (
        "import os, time\n"
        "for n in range(3000):\n"
        "    os.close(os.open(f'/tmp/{n}', os.O_CREAT)); n % 100 or time.sleep(0.01)\n"
        "time.sleep(0.2)"
    )
    held = await run(source, limits=Limits(wall_s=20, inodes=500))
    assert (held.status, held.exit_code) == (RunStatus.INODES, None)
    assert (await run(source)).status is RunStatus.OK


async def test_no_link_or_odd_file_or_odd_name_becomes_an_artifact(run: Run) -> None:
    outcome = await run(
        "import os, socket\n"
        "os.chdir('/work/out')\n"
        "os.symlink('/etc/passwd', 'link'); os.symlink('/usr', 'folder'); os.mkfifo('fifo'); os.symlink('..', 'up')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "for name in ('a\\nb', 'c\\\\d', b'\\xff', '\\u202egnp.exe', 'good'): open(name, 'w').close()\n"
    )
    assert outcome.status is RunStatus.OK
    assert [artifact.name for artifact in outcome.artifacts] == ["good"]
    assert outcome.truncated
    assert outcome.duration_ms < 5000


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


async def test_an_output_folder_that_was_made_a_link_gives_nothing(run: Run) -> None:
    outcome = await run("import os; os.rmdir('/work/out'); os.symlink('/usr/lib', '/work/out')")
    assert (outcome.status, outcome.artifacts, outcome.truncated) == (RunStatus.OK, (), True)


async def test_a_second_run_sees_nothing_of_the_first(run: Run) -> None:
    source = (
        "from pathlib import Path\n"
        "for file in map(Path, ('/tmp/x', '/work/x', '/dev/shm/x')): print(file.exists()); file.touch()"
    )
    for _ in range(2):
        assert (await run(source)).stdout == b"False\n" * 3


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


async def test_a_script_cannot_forge_its_result(run: Run) -> None:
    outcome = await run(
        "import os\n"
        "frame = b'X' + (12).to_bytes(4, 'big') + bytes(12)\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, frame)\n"
        "    except OSError: pass\n"
        "os._exit(7)"
    )
    assert (outcome.status, outcome.exit_code) == (RunStatus.FAILED, 7)


async def test_a_script_that_crashes_says_by_which_signal(run: Run) -> None:
    outcome = await run("import ctypes; ctypes.string_at(0)")
    assert (outcome.status, outcome.exit_code) == (RunStatus.KILLED, None)
    assert "SIGSEGV" in outcome.detail
