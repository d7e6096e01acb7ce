"""Runs without isolation: only on demand, never quietly, and with the limits that can be had."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.adapters.starting import Profile
from skillbus.sandbox.adapters.unsafe import UnsafeIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import Level, RunOutcome, RunSpec


async def run(folder: Path, source: str, limits: Limits | None = None) -> RunOutcome:
    folder.joinpath("main.py").write_text(source)
    return await UnsafeIsolation().run(RunSpec(folder, "main.py", Runtime.PYTHON, limits=limits or Limits(wall_s=20)))


async def test_it_shouts_at_its_start_and_at_each_run_and_says_so_in_the_reply(tmp_path: Path) -> None:
    tmp_path.joinpath("main.py").write_text("print('ran')")
    isolation = UnsafeIsolation()
    with capture_logs() as logs:
        report = await isolation.probe()
        outcomes = [await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON)) for _ in range(2)]
    shouted = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert shouted == ["sandbox_unsafe", "run_without_isolation", "run_without_isolation"]
    assert report.level is Level.NONE
    assert "NOT isolated" in report.notes[0]
    assert [(outcome.level, outcome.stdout) for outcome in outcomes] == [(Level.NONE, b"ran\n")] * 2


async def test_it_is_never_what_a_machine_that_cannot_isolate_falls_back_to(
    make_isolation: Callable[..., BubblewrapIsolation],
) -> None:
    broken = make_isolation(profile=Profile(lambda _: ("/bin/false",)))
    with pytest.raises(SandboxUnavailable) as caught:
        await broken.probe()
    assert "level none" not in str(caught.value)


async def test_the_service_s_environment_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_CANARY", "secret-value")
    outcome = await run(tmp_path, "import os; print(os.environ)")
    assert b"secret-value" not in outcome.stdout


async def test_a_script_that_writes_beside_itself_does_not_change_the_skill(tmp_path: Path) -> None:
    outcome = await run(tmp_path, "open('left', 'w'); open(__file__, 'a').write('#'); print('wrote')")
    assert outcome.stdout == b"wrote\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.py"]
    assert not (tmp_path / "main.py").read_text().endswith("#")


async def test_the_kernel_holds_the_limits_of_a_process(tmp_path: Path) -> None:
    outcome = await run(
        tmp_path,
        "import resource as r\n"
        "print(*(r.getrlimit(getattr(r, 'RLIMIT_' + kind))[1] for kind in 'NOFILE CPU CORE AS'.split()))",
        Limits(open_files=44, cpu_s=5),
    )
    assert outcome.stdout.split() == [b"44", b"6", b"1", str(512 << 20).encode()]


async def test_too_many_processes_end_the_run_and_all_of_them(tmp_path: Path) -> None:
    outcome = await run(
        tmp_path,
        "import os, time\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0: time.sleep(9); os._exit(0)\n"
        "    print(child, flush=True)\n"
        "time.sleep(9)",
        Limits(wall_s=20, processes=10),
    )
    assert outcome.status is RunStatus.KILLED
    assert "processes" in outcome.detail
    assert [pid for pid in outcome.stdout.split() if is_running(int(pid))] == []


async def test_what_left_the_group_is_ended_too(tmp_path: Path) -> None:
    outcome = await run(
        tmp_path,
        "import os, time\n"
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: os.write(writer, b'%d' % os.getpid()); time.sleep(9)\n"
        "    os._exit(0)\n"
        "print(os.read(reader, 99).decode())",
    )
    assert outcome.status is RunStatus.OK
    assert not is_running(int(outcome.stdout))


async def test_who_hides_from_the_end_does_not_hold_the_result(tmp_path: Path) -> None:
    """It has thrown its environment away, by which it would be found; it ends by itself soon after."""
    hidden = "import os, time; print(os.getpid(), flush=True); time.sleep(4)"
    outcome = await run(
        tmp_path,
        "import os, sys\n"
        f"if os.fork() == 0: os.setsid(); os.execve(sys.executable, ['python3', '-c', {hidden!r}], {{}})\n"
        "import time; time.sleep(0.7)",
    )
    assert outcome.status is RunStatus.OK
    assert outcome.duration_ms < 3900
    os.kill(int(outcome.stdout), 9)


async def test_cancelling_the_task_ends_the_script(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    source = f"import os, time\nopen({str(marker)!r}, 'w').write(str(os.getpid()))\ntime.sleep(9)"
    task = asyncio.ensure_future(run(tmp_path, source))
    async with asyncio.timeout(5):
        while not marker.exists() or not marker.read_text():  # noqa: ASYNC110 - the script tells nobody else
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(int(marker.read_text()))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
