"""What holds of a run whatever isolates it, and when nothing does."""

import asyncio
import json
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import RunRejected, SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec

from ...abuse.model import find_runtime
from .engines import ENGINES, engine_isolation

Run = Callable[..., "asyncio.Future[RunOutcome]"]

SKILLS = Path(__file__).parents[4] / "shared" / "data" / "skills"
RUNS = SKILLS / "runs.jsonl"
RECORDED = [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.is_file() else []
LANGUAGES = {
    "main.py": "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(3)",
    "main.sh": "echo \"['$1', '$2']\" $(cat); exit 3",
    "main.js": "const [a, b] = process.argv.slice(2), given = require('fs').readFileSync(0);"
    "console.log(`['${a}', '${b}'] ${given}`); process.exit(3)",
}


@pytest.fixture(params=["cold", "warm", *ENGINES])
async def isolation(
    request: pytest.FixtureRequest,
    make_isolation: Callable[..., BubblewrapIsolation],
    nothing_left: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Isolation]:
    if request.param in ENGINES:
        with contextmanager(engine_isolation)(request.param, tmp_path_factory.mktemp("engine")) as engine:
            yield engine
        return
    warm = int(request.param == "warm")
    async with make_isolation(warm=warm) as made:
        try:
            await made.probe()
        except SandboxUnavailable as unavailable:
            pytest.skip(f"no sandbox on this machine: {unavailable}")

        async def waiting() -> int:
            return made.waiting

        await eventually(waiting, lambda number: number == warm)
        yield made


@pytest.mark.skipif(not RECORDED, reason="the recorded runs are not beside the repository")
async def test_recorded_runs_give_what_is_recorded(isolation: Isolation, tmp_path: Path) -> None:
    wrong = list[str]()
    for number, case in enumerate(RECORDED):
        with zipfile.ZipFile(SKILLS / f"{case['skill']}.zip") as archive:
            archive.extractall(tmp_path / str(number))
        root = next((tmp_path / str(number)).glob("**/SKILL.md")).parent
        script, argv = str(case["script"]), tuple(map(str, case["argv"] or ()))
        spec = RunSpec(root, script, find_runtime(script), argv, str(case["stdin"] or "").encode())
        outcome = await isolation.run(spec)
        printed = (outcome.stdout + outcome.stderr).decode()
        if outcome.exit_code != case["expect_exit"] or str(case["expect_output_contains"]) not in printed:
            wrong.append(f"{case['skill']}/{script} {argv}: {outcome}")
    assert not wrong


async def test_a_script_imports_its_siblings_and_from_the_skill_s_root(run: Run, tmp_path: Path) -> None:
    (tmp_path / "skill" / "scripts").mkdir(parents=True)
    (tmp_path / "skill" / "scripts" / "sibling.py").write_text("A = 1")
    (tmp_path / "skill" / "scripts" / "marshal.py").write_text("raise SystemExit('shadowed')")
    outcome = await run(
        "import sibling, scripts.sibling, os\n"
        "print(sibling.A, os.path.basename(os.getcwd()), __name__, os.path.relpath(__file__)); exit(0)"
    )
    assert outcome.stdout == b"1 skill __main__ scripts/main.py\n", outcome.stderr


async def test_exit_handlers_threads_and_child_interpreters_work_as_usual(run: Run) -> None:
    outcome = await run(
        "import atexit, sys, subprocess, threading, multiprocessing, asyncio\n"
        "atexit.register(lambda: print('last'))\n"
        "threading.Thread(target=lambda: print('thread')).start()\n"
        "def work(n): return n * n\n"
        "async def main(): await asyncio.to_thread(print, 'async', flush=True)\n"
        "asyncio.run(main())\n"
        "print(subprocess.run([sys.executable, '-c', 'print(6*7)'], capture_output=True, text=True).stdout.strip())\n"
        "sys.exit('bye')\n"
    )
    assert outcome.exit_code == 1
    assert sorted(outcome.stdout.decode().split()) == ["42", "async", "last", "thread"]
    assert outcome.stderr == b"bye\n"


async def test_standard_input_that_nobody_reads_blocks_nobody(run: Run) -> None:
    outcome = await run("print('done')", stdin=b"x" * 5_000_000)
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"done\n")


async def test_the_standard_streams_can_be_opened_by_name(run: Run) -> None:
    outcome = await run(
        "cat /dev/stdin; echo e > /dev/stderr; echo o > /dev/stdout; yes | head -1", name="a.sh", stdin=b"i\n"
    )
    assert (outcome.stdout, outcome.stderr) == (b"i\no\ny\n", b"e\n")


@pytest.mark.parametrize("script", ["scripts/none.py", "scripts", "../x.py", "scripts/out.py"])
async def test_a_script_that_is_not_a_file_of_the_skill_is_refused(
    script: str, run: Run, isolation: Isolation, tmp_path: Path
) -> None:
    await run("pass")
    (tmp_path / "skill" / "scripts" / "out.py").symlink_to("/usr/bin/python3")
    with pytest.raises(RunRejected):
        await isolation.run(RunSpec(tmp_path / "skill", script, Runtime.PYTHON))


async def test_what_it_prints_is_heard_as_it_comes(isolation: Isolation, tmp_path: Path) -> None:
    tmp_path.joinpath("main.py").write_text(
        "import sys, time\nprint('one', flush=True)\ntime.sleep(0.3)\nprint('two', file=sys.stderr, flush=True)\n"
    )
    heard: list[tuple[OutputStream, bytes, float]] = []
    control = RunControl(hear=lambda stream, chunk: heard.append((stream, chunk, time.monotonic())))

    outcome = await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, limits=Limits(wall_s=20)), control)

    assert [(stream, chunk) for stream, chunk, _ in heard] == [
        (OutputStream.STDOUT, b"one\n"),
        (OutputStream.STDERR, b"two\n"),
    ]
    assert heard[1][2] - heard[0][2] > 0.2
    assert (outcome.stdout, outcome.stderr) == (b"one\n", b"two\n")


async def test_a_cancelled_run_ends_at_once_with_what_it_gave_so_far(
    isolation: Isolation, tmp_path: Path, nothing_left: None
) -> None:
    tmp_path.joinpath("main.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    control = RunControl(hear=lambda stream, chunk: control.cancelled.set())

    async with asyncio.timeout(15):
        outcome = await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON, limits=Limits(wall_s=60)), control)

    assert (outcome.status, outcome.stdout, outcome.exit_code) == (RunStatus.CANCELLED, b"begun\n", None)


@pytest.mark.parametrize("name", LANGUAGES)
async def test_each_language_gets_its_arguments_and_input(name: str, run: Run, isolation: Isolation) -> None:
    outcome = await run(LANGUAGES[name], "a b", "$(id);", name=name, stdin="北京".encode())
    assert outcome.stdout.decode() == "['a b', '$(id);'] 北京\n"
    level = (await isolation.probe()).level
    assert (outcome.status, outcome.exit_code, outcome.level) == (RunStatus.FAILED, 3, level)


async def test_files_are_given_and_what_is_left_comes_back(run: Run) -> None:
    outcome = await run(
        "import os, pathlib\n"
        "given, out = pathlib.Path(os.environ['SKILLBUS_IN']), pathlib.Path(os.environ['SKILLBUS_OUT'])\n"
        "(out / 'charts').mkdir()\n"
        "(out / 'charts' / '图.bin').write_bytes((given / 'in' / 'a.bin').read_bytes() * 2)\n"
        "os.symlink('/etc/passwd', out / 'link'); os.mkfifo(out / 'fifo'); (out / 'a\\nb').touch()\n",
        files={"in/a.bin": bytes(range(256))},
    )
    assert [(a.name, a.content) for a in outcome.artifacts] == [("charts/图.bin", bytes(range(256)) * 2)]
    assert outcome.truncated
    assert outcome.detail.count(";") == 2


async def test_artifacts_are_capped_in_number_and_in_size(run: Run) -> None:
    source = "import os\nfor n in range(9): open(os.environ['SKILLBUS_OUT'] + f'/{n}', 'w').write('x' * 100)"
    many = await run(source, limits=Limits(wall_s=20, artifacts=4))
    large = await run(source, limits=Limits(wall_s=20, artifacts_bytes=250))
    assert [(len(one.artifacts), one.truncated) for one in (many, large)] == [(4, True), (2, True)]
    assert len((await run(source)).artifacts) == 9


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


async def test_a_daemon_that_holds_the_output_does_not_hold_the_result(run: Run) -> None:
    outcome = await run(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(20)\nprint('done')"
    )
    assert outcome.status is RunStatus.OK
    assert outcome.duration_ms < 5000


async def test_a_process_that_burns_its_time_is_ended(run: Run) -> None:
    outcome = await run("while True: pass", limits=Limits(wall_s=20, cpu_s=1))
    assert outcome.status is RunStatus.CPU
    assert outcome.cpu_ms >= 500


async def test_output_is_cut_exactly_at_the_limit_over_both_streams(run: Run) -> None:
    flood = "import os\nfor n in range(64):\n    for fd in (1, 2): os.write(fd, b'x' * 65536)"
    outcome = await run(flood, limits=Limits(wall_s=20, output_bytes=MIB))
    assert (outcome.status, outcome.truncated) == (RunStatus.OUTPUT, True)
    assert len(outcome.stdout) + len(outcome.stderr) == MIB


@pytest.mark.serial
async def test_a_tree_of_small_processes_is_ended_at_the_limit_of_the_whole(run: Run) -> None:
    source = (
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0: data = b'x' * (30 << 20); time.sleep(1.5); os._exit(0)\n"
        "for _ in range(4): os.wait()\n"
    )
    small = await run(source, limits=Limits(wall_s=20, memory_bytes=80 * MIB))
    assert (small.status, small.exit_code) == (RunStatus.MEMORY, None)
    large = await run(source)
    assert large.status is RunStatus.OK
    assert (large.peak_bytes or 0) > 100 * MIB


async def test_a_script_that_crashes_says_by_which_signal(run: Run) -> None:
    outcome = await run("import os; os.kill(os.getpid(), 11)")
    assert (outcome.status, outcome.exit_code) == (RunStatus.KILLED, None)
    assert "SIGSEGV" in outcome.detail
