"""A skill written on the spot, run in a real sandbox, and a count of what is left of it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunOutcome, RunSpec

from ...abuse.leftovers import list_sandbox_mounts
from ...abuse.model import find_runtime

Run = Callable[..., Coroutine[object, object, RunOutcome]]

USER = 1_000_000 + os.getpid()
"""User of this test process's runs when it is root, so that their remains differ from those of other tests."""


def processes_in_sandboxes() -> list[int]:
    """Processes of our sandboxes: of our own user, or when we are not root, ours in another pid namespace.

    Fork servers are not counted: they are no part of a sandbox.
    """
    here = Path("/proc/self/ns/pid").readlink()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            uid = folder.stat().st_uid
            status = (folder / "status").read_text()
            real = int(status.split("Uid:")[1].split()[0])
            starts = status.split("Name:\t")[1].startswith("python") and f"PPid:\t{os.getpid()}\n" in status
            mine = (real == USER and not starts) or (
                uid == os.geteuid() != 0 and (folder / "ns/pid").readlink() != here
            )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mine:
            found.append(int(folder.name))
    return found


@pytest.fixture
def processes() -> Callable[[], list[int]]:
    """Those of all our sandboxes."""
    return processes_in_sandboxes


@pytest.fixture
def nothing_runs(isolation: BubblewrapIsolation) -> Callable[[], Coroutine[object, object, None]]:
    """Asserts that no process of a run is there, beside sandboxes that wait or are being started to."""

    async def running() -> list[int]:
        return [pid for pid in processes_in_sandboxes() if pid not in isolation.waiting_pids]

    async def check() -> None:
        await eventually(running, lambda pids: not pids)

    return check


@pytest.fixture
async def make_isolation(nothing_left: None) -> AsyncIterator[Callable[..., BubblewrapIsolation]]:
    """Each is closed at the end."""
    made = list[BubblewrapIsolation]()

    def make(**options: object) -> BubblewrapIsolation:
        made.append(BubblewrapIsolation(**{"user": USER, **options}))  # type: ignore[arg-type]  # a test's shorthand
        return made[-1]

    yield make
    for isolation in made:
        await isolation.__aexit__()


@pytest.fixture(params=[0, 1], ids=["cold", "warm"])
async def isolation(
    request: pytest.FixtureRequest, make_isolation: Callable[..., BubblewrapIsolation], nothing_left: None
) -> AsyncIterator[BubblewrapIsolation]:
    """One that starts a sandbox for each run, and one that has it waiting."""
    async with make_isolation(warm=request.param) as made:
        try:
            await made.probe()
        except SandboxUnavailable as unavailable:
            pytest.skip(f"no sandbox on this machine: {unavailable}")

        async def waiting() -> int:
            return made.waiting

        await eventually(waiting, lambda number: number == request.param)
        yield made


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        return None  # it was another's, whose run has ended


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Checked when the isolation is closed: a sandbox that waits is one of its own."""
    mounts = list_sandbox_mounts()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert processes_in_sandboxes() == []
    assert list_sandbox_mounts() == mounts
    assert [path for path in Path("/tmp").glob("skillbus-run-*") if _owner(path) == USER] == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 1


@pytest.fixture(scope="session")
def sandbox_here() -> None:
    """Skip the test where no sandbox can be made."""

    async def probe() -> None:
        async with BubblewrapIsolation(user=USER) as isolation:
            await isolation.probe()

    try:
        asyncio.run(probe())
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")


@pytest.fixture
def run(isolation: BubblewrapIsolation, run_within: Run) -> Run:
    """Run a script in each isolation."""
    return partial(run_within, within=isolation)


@pytest.fixture
def run_within(tmp_path: Path, sandbox_here: None, nothing_left: None) -> Run:
    """Run a script in the isolation that a test has made itself."""

    async def run(
        source: str,
        *argv: str,
        name: str = "main.py",
        limits: Limits | None = None,
        stdin: bytes = b"",
        files: dict[str, bytes] | None = None,
        within: BubblewrapIsolation,
    ) -> RunOutcome:
        skill = tmp_path / "skill"
        (skill / "scripts").mkdir(parents=True, exist_ok=True)
        (skill / "scripts" / name).write_text(source)
        runtime: Runtime = find_runtime(name)
        spec = RunSpec(skill, f"scripts/{name}", runtime, argv, stdin, files or {}, limits or Limits(wall_s=20))
        return await within.run(spec)

    return run
