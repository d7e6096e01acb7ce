"""Container engines: the walls of a container, and that nothing of one is left, whatever became of the service."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.gvisor.isolation import GvisorIsolation, make_owner_name
from skillbus.sandbox.adapters.gvisor.runsc import Runsc
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunOutcome, RunSpec

from .engines import ENGINES, names

Run = Callable[..., Coroutine[object, object, RunOutcome]]

WALLS = """
import ctypes, os, socket
def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False
others = set(os.listdir('/')) - {'work', 'tmp', 'skill', 'in'}
print(dict(
    root=refused(lambda: open('/x', 'w')),
    usr=refused(lambda: open('/usr/bin/x', 'w')),
    skill=refused(lambda: open('/skill/main.py', 'a')),
    user=os.getuid() != 0 and refused(lambda: os.setuid(0)),
    agent=refused(lambda: open('/proc/1/mem', 'rb').read(1)) and refused(lambda: os.open('/proc/1/fd/0', os.O_RDWR)),
    mount=refused(lambda: os.chroot('/work')),
    network=refused(lambda: socket.socket(socket.AF_INET)) and refused(socket.if_nameindex),
    vsock=refused(lambda: socket.socket(40)),
    namespaces=ctypes.CDLL(None).unshare(0x10000000) != 0,
    elsewhere=all(refused(lambda: open(f'/{name}/x', 'w')) for name in others),
))
"""
SERVICE = """
import asyncio, sys
from pathlib import Path
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.gvisor.isolation import GvisorIsolation
from skillbus.sandbox.domain.run.spec import RunControl, RunSpec
from {module} import {kind}

engine = {engine}
told = RunControl(hear=lambda stream, chunk: print('runs', flush=True))
asyncio.run(GvisorIsolation(engine, {owner!r}).run(RunSpec(Path({skill!r}), 'main.py', Runtime.PYTHON), told))
"""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runsc:
    return ENGINES[request.param](tmp_path_factory.mktemp("engine"))


@pytest.fixture
def owner(engine: Runsc, tmp_path: Path) -> Iterator[str]:
    yield (owner := make_owner_name(tmp_path))
    assert names(engine, owner) == []


@pytest.fixture
def run(engine: Runsc, owner: str, tmp_path: Path) -> Run:
    isolation = GvisorIsolation(engine, owner)

    async def run(source: str, limits: Limits | None = None, **given: object) -> RunOutcome:
        tmp_path.joinpath("main.py").write_text(source)
        limits = limits or Limits(wall_s=30)
        spec = RunSpec(tmp_path, "main.py", Runtime.PYTHON, limits=limits, **given)  # type: ignore[arg-type]  # a test's
        return await isolation.run(spec)

    return run


async def test_a_container_s_walls_stand(run: Run) -> None:
    outcome = await run(WALLS)
    assert outcome.status is RunStatus.OK, outcome.stderr
    assert b"False" not in outcome.stdout, outcome.stdout


async def test_two_runs_see_nothing_of_each_other(run: Run) -> None:
    source = (
        "import os\n"
        "for folder in ('/work', '/tmp', '/dev/shm'):\n"
        "    print('left' in os.listdir(folder)); open(folder + '/left', 'w')"
    )
    assert [(await run(source)).stdout.split() for _ in range(2)] == [[b"False"] * 3] * 2


async def test_a_script_can_end_neither_the_agent_nor_the_account_of_its_run(run: Run) -> None:
    outcome = await run(
        "import os, signal\n"
        "for number in (9, 19, 15): \n"
        "    try: os.kill(1, number)\n"
        "    except PermissionError: pass\n"
        "print('alive')"
    )
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"alive\n")


async def test_processes_are_bounded(run: Run) -> None:
    outcome = await run(
        "import os, time\n"
        "for number in range(60):\n"
        "    if os.fork() == 0: time.sleep(20); os._exit(0)\n"
        "    print(number, flush=True)\n"
        "time.sleep(20)",
        Limits(wall_s=30, processes=20),
    )
    assert outcome.status in {RunStatus.FAILED, RunStatus.KILLED}
    assert 5 < len(outcome.stdout.split()) < 40
    assert outcome.duration_ms < 15_000


async def test_what_can_be_written_is_bounded(run: Run) -> None:
    outcome = await run(
        "import os\n"
        "for folder in ('/work', '/tmp', '/dev/shm'):\n"
        "    written = 0\n"
        "    try:\n"
        "        with open(folder + '/full', 'wb', buffering=0) as file:\n"
        "            for _ in range(30): written += file.write(b'x' * (1 << 20))\n"
        "    except OSError: pass\n"
        "    print(written >> 20)",
        Limits(wall_s=30, work_bytes=8 << 20, tmp_bytes=8 << 20, shm_bytes=8 << 20),
    )
    assert [int(written) <= 8 for written in outcome.stdout.split()] == [True] * 3, outcome


async def test_a_flood_of_output_ends_the_run_and_not_the_service(run: Run) -> None:
    outcome = await run("import os\nfor _ in range(400): os.write(1, b'x' * (1 << 20))", Limits(wall_s=30))
    assert outcome.status is RunStatus.OUTPUT
    assert len(outcome.stdout) == Limits().output_bytes


async def test_a_run_is_refused_a_network_that_its_engine_does_not_give(run: Run) -> None:
    with pytest.raises(RunRejected, match="network"):
        await run("", network=(HostPort("example.org", 443),))


async def test_packages_are_shown_read_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir(mode=0o755)
    (tmp_path / "layer" / "wanted.py").write_text("ANSWER = 42")
    source = "import wanted; print(wanted.ANSWER); open('/deps/x', 'w')"
    outcome = await run(source, layer=tmp_path / "layer")
    assert outcome.stdout == b"42\n"
    assert outcome.status is RunStatus.FAILED
    assert sorted(path.name for path in (tmp_path / "layer").iterdir()) == ["wanted.py"]


async def test_cancelling_the_task_leaves_no_container(run: Run, engine: Runsc, owner: str) -> None:
    task = asyncio.ensure_future(run("import time; time.sleep(30)"))
    await eventually(lambda: asyncio.to_thread(names, engine, owner), bool, wait_s=20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(engine, owner) == []


async def test_a_service_that_was_killed_leaves_no_container_that_goes_on(
    engine: Runsc, owner: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("main.py").write_text("import time; print('', flush=True); time.sleep(60)")
    source = SERVICE.format(
        module=type(engine).__module__,
        kind=type(engine).__name__,
        engine=_written(engine),
        owner=owner,
        skill=str(tmp_path),
    )
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", source, stdout=subprocess.PIPE)
    assert service.stdout is not None
    while (line := await service.stdout.readline()) != b"runs\n":
        assert line, "the service ended"
    assert len(names(engine, owner)) == 1
    service.kill()
    await service.communicate()

    # The agent ends with its input. What is kept of a container that ended is removed at the next start.
    await GvisorIsolation(engine, owner).probe()

    assert names(engine, owner) == []
    assert list(Path(tempfile.gettempdir()).glob(f"{owner}*")) == []


def _written(engine: Runsc) -> str:
    return f"Runsc(Path({str(engine.state)!r}), program={engine.program!r})"
