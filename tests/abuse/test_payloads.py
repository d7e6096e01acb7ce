"""Payloads that go around a limit: each is ended by the one that is due, and gets through when that is raised."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.common.testing import sandbox_mounts
from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import RunOutcome, RunSpec, runtime_of

from .manifest import ABUSES, Abuse

PAYLOADS = Path(__file__).parent / "payloads"
UIDS = range(1_100_000 + os.getpid() * 8, 1_100_000 + os.getpid() * 8 + 8)
SEND_BUFFER_BYTES = 512 * 1024
"""What a socket may hold at most: Linux's default of 208 KiB, and how the kernel rounds what it accounts."""

EACH = pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.payload)


@pytest.fixture
async def isolation() -> BubblewrapIsolation:
    isolation = BubblewrapIsolation(uids=UIDS)
    try:
        report = await isolation.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    if "node" not in report.runtimes:
        pytest.skip("Node is not installed")
    return isolation


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    mounts = sandbox_mounts()
    yield
    assert sandbox_mounts() == mounts
    assert [pid for pid in Path("/proc").glob("[0-9]*") if _user_of(pid) in UIDS] == []


def _user_of(process: Path) -> int:
    try:
        return int((process / "status").read_text().split("Uid:")[1].split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return -1


async def run(isolation: BubblewrapIsolation, folder: Path, abuse: Abuse, limits: Limits) -> RunOutcome:
    shutil.copy(PAYLOADS / abuse.payload, folder)
    return await isolation.run(
        RunSpec(folder, abuse.payload, runtime_of(abuse.payload), argv=abuse.argv, limits=limits)
    )


@EACH
async def test_it_is_ended_by_its_limit(abuse: Abuse, isolation: BubblewrapIsolation, tmp_path: Path) -> None:
    outcome = await run(isolation, tmp_path, abuse, replace(Limits(wall_s=20), **abuse.limits))
    assert outcome.status is abuse.ends_by, outcome


@EACH
async def test_weakened_it_gets_through(abuse: Abuse, isolation: BubblewrapIsolation, tmp_path: Path) -> None:
    outcome = await run(isolation, tmp_path, abuse, replace(Limits(wall_s=20), **abuse.weakened))
    assert (outcome.status, outcome.stderr) == (RunStatus.OK, b"")
    assert abuse.prints in outcome.stdout


async def test_a_socket_holds_no_more_than_the_default(isolation: BubblewrapIsolation, tmp_path: Path) -> None:
    abuse = Abuse("socket_hoard.py", ("1", "0"), RunStatus.OK, {}, {}, b"")
    held = int((await run(isolation, tmp_path, abuse, Limits(wall_s=20))).stdout)
    assert 0 < held <= SEND_BUFFER_BYTES
