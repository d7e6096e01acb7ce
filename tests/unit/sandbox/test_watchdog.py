"""What a look at a sandbox from outside means, when the kernel does not allow it."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.kernel import watchdog
from skillbus.sandbox.domain.run.limits import Limits

_RUNNING = "41 (a (strange) name) S 1 41 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1\n"
_ENDING = _RUNNING.replace("4194560", str(4194560 | 0x4))


@pytest.fixture
def unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process 41 that may not be looked into, in a /proc of the test; its folder."""
    process = tmp_path / "41"
    (process / "net").mkdir(parents=True)
    (process / "stat").write_text(_RUNNING)

    def refused(_: Path) -> int:
        raise PermissionError

    monkeypatch.setattr(watchdog, "_PROC", tmp_path)
    monkeypatch.setattr(watchdog, "_count_inodes", refused)
    return process


async def meter_of(process: int, **limits: int) -> watchdog.WatchdogMeter:
    meter = watchdog.Watchdog().create_meter()
    await meter.enter((process,))
    meter.limit(Limits(**limits))
    return meter


async def test_a_running_sandbox_that_may_not_be_looked_into_is_ended(unreadable: Path) -> None:
    async with asyncio.timeout(5):
        excess = await (await meter_of(41)).watch_limits()
    assert excess.status is RunStatus.KILLED
    assert "may not look" in excess.detail


async def test_a_sandbox_that_is_ending_is_not_blamed_for_being_unreadable(unreadable: Path) -> None:
    (unreadable / "stat").write_text(_ENDING)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10 * watchdog.POLL_S):
            await (await meter_of(41)).watch_limits()


async def test_one_refused_look_is_looked_at_again(unreadable: Path) -> None:
    watching = asyncio.create_task((await meter_of(41)).watch_limits())
    await asyncio.sleep(0)
    shutil.rmtree(unreadable)  # it ended between two looks
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10 * watchdog.POLL_S):
            await watching


def test_the_kernel_says_whether_a_process_is_ending() -> None:
    assert not watchdog.is_ending(os.getpid())
    child = subprocess.Popen(["sleep", "30"])
    try:
        assert not watchdog.is_ending(child.pid)
    finally:
        child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, and stays one
    assert watchdog.is_ending(child.pid)
    child.wait()
    assert watchdog.is_ending(child.pid)


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "found"),
    [
        ("sockets: used 8\nTCP: inuse 8 orphan 0", "TCP6: inuse 0", False),
        ("sockets: used 9\nTCP: inuse 0 orphan 0", "TCP6: inuse 0", True),
        ("sockets: used 2\nTCP: inuse 9 orphan 0", "TCP6: inuse 0", True),
        ("sockets: used 2\nTCP: inuse 4 orphan 0", "TCP6: inuse 5", True),
    ],
    ids=["at the limit", "open", "unaccepted IPv4 connections", "unaccepted connections of both kinds"],
)
def test_tcp_connections_that_belong_to_no_process_count_as_sockets(
    ipv4: str, ipv6: str, found: bool, unreadable: Path
) -> None:
    (unreadable / "net" / "sockstat").write_text(f"{ipv4}\n")
    (unreadable / "net" / "sockstat6").write_text(f"{ipv6}\n")
    assert (watchdog.check_sockets(41, Limits(sockets=8)) is not None) is found
