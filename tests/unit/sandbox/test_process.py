"""A sandbox as its service sees it, with harmless programs in the place of bubblewrap, process 1 and the agent."""

import asyncio
import gc
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from skillbus.sandbox.adapters.bubblewrap import process
from skillbus.sandbox.adapters.bubblewrap.process import SandboxPipes, SandboxProcess


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two programs that end when they are killed."""
    with ExitStack() as ends:
        started = list[subprocess.Popen[bytes]]()
        for _ in range(2):
            started.append(ends.enter_context(subprocess.Popen(("sleep", "60"), start_new_session=True)))
            ends.callback(started[-1].kill)
        yield started


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_bubblewrap_that_does_not_end_leaves_no_error_that_nobody_took(
    programs: list[subprocess.Popen[bytes]], is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_END_S", 5.0 if is_cancelled else 0.05)
    left = list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context["message"]))
    bubblewrap, first = programs
    pipes = SandboxPipes(None)
    os.write(pipes.their_info, json.dumps({"child-pid": first.pid}).encode() + b"\n")
    answer_as_launcher(pipes, bubblewrap.pid)
    pipes.of_bwrap.close()
    sandbox = SandboxProcess(pipes)
    assert await sandbox.attach() == first.pid
    assert sandbox.pid == bubblewrap.pid
    await sandbox.end()
    reaping = asyncio.create_task(sandbox.reap())
    await asyncio.sleep(0)
    if is_cancelled:
        reaping.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else TimeoutError):
        await reaping
    assert not sandbox.is_running()
    if ending := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(ending, timeout=5)
    await asyncio.sleep(0.01)  # what waits for them hears of their ends in later turns of the loop
    del reaping, ending
    gc.collect()  # an error that nobody took is reported when its task is collected
    assert left == []


def answer_as_launcher(pipes: SandboxPipes, pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    with socket.socket(fileno=os.dup(pipes.their_launched)) as launcher:
        socket.send_fds(launcher, [pid.to_bytes(4, "big")], [pidfd])
    os.close(pidfd)


async def test_a_bubblewrap_that_did_not_start_has_nothing_to_end() -> None:
    pipes = SandboxPipes(None)
    pipes.of_bwrap.close()  # as the launcher does, without an answer
    sandbox = SandboxProcess(pipes)
    with pytest.raises(ProcessLookupError, match=r"bubblewrap did not start"):
        await sandbox.attach()
    assert not sandbox.is_running()
    async with asyncio.timeout(5):
        await sandbox.end()
        await sandbox.reap()
