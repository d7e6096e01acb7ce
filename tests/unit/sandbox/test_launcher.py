"""The launcher, with harmless programs in the place of bubblewrap."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.bubblewrap import helper_program
from skillbus.sandbox.adapters.bubblewrap.launcher import InheritedNumbers, Launcher
from skillbus.sandbox.adapters.host import wait_readable

DESCRIBE = "ls -l /proc/self/fd; grep SigIgn /proc/self/status; echo $ONLY; read _"


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    started = Launcher((sys.executable,))
    yield started
    started.close()


async def launch(launcher: Launcher, *command: str, file: int = -1) -> tuple[bytes, list[int], str]:
    """Return the launcher's answer, and what the program has printed until the end of its standard input.

    That ends after the answer: of a program that has ended before there is none.
    """
    (stdin, hold), (reading, writing) = os.pipe(), os.pipe()
    ours, theirs = socket.socketpair()
    inherited = InheritedNumbers(stdin, writing, writing)
    words = [str(inherited.add(file)) if word == "FILE" else word for word in command]
    with ours, theirs, os.fdopen(reading) as printed, os.fdopen(hold, "w") as held:
        await launcher.launch_program(words, {"ONLY": "this"}, inherited, theirs.fileno())
        theirs.close()
        for descriptor in (stdin, writing):
            os.close(descriptor)
        ours.setblocking(False)
        async with asyncio.timeout(20):
            await wait_readable(ours.fileno())
            answer, passed, _, _ = socket.recv_fds(ours, 4, 1)
            held.close()
            return answer, passed, await asyncio.to_thread(printed.read)


async def test_a_program_has_what_it_was_given_and_nothing_of_the_launcher(launcher: Launcher, tmp_path: Path) -> None:
    tmp_path.joinpath("given").write_text("content")
    file = os.open(tmp_path / "given", os.O_RDONLY)
    try:
        answer, passed, printed = await launch(
            launcher, "/bin/sh", "-c", f"cat /proc/self/fd/$0; echo; {DESCRIBE}", "FILE", file=file
        )
    finally:
        os.close(file)
    lines = printed.splitlines()
    assert lines[0] == "content"
    shown = {line.split()[-3]: line.split()[-1] for line in lines if " -> " in line}
    assert shown.pop("0") != shown.pop("1") == shown.pop("2")
    assert sorted(path for path in shown.values() if not path.startswith("/proc/")) == [str(tmp_path / "given")]
    (ignored,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    assert not any(ignored & 1 << number - 1 for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE))
    assert "this" in lines
    (pidfd,) = passed
    await wait_readable(pidfd)  # it has ended
    os.close(pidfd)
    assert not Path("/proc", str(int.from_bytes(answer, "big"))).exists()


async def test_a_program_leads_its_own_session(launcher: Launcher) -> None:
    answer, passed, printed = await launch(launcher, "/bin/sh", "-c", "cut -d' ' -f5,6 /proc/self/stat; read _")
    os.close(passed[0])
    leader = str(int.from_bytes(answer, "big"))
    assert printed.split() == [leader, leader]


async def test_a_program_that_does_not_start_says_why_and_the_next_one_starts(launcher: Launcher) -> None:
    assert await launch(launcher, "/nowhere/bwrap") == (b"", [], "/nowhere/bwrap: No such file or directory")
    answer, passed, printed = await launch(launcher, "/bin/sh", "-c", "echo started; read _")
    os.close(passed[0])
    assert (len(answer), printed) == (4, "started\n")


async def test_a_launcher_goes_on_though_nobody_reads_why_a_program_did_not_start(launcher: Launcher) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        await launcher.launch_program(
            ("/nowhere/bwrap",), {}, InheritedNumbers(writing, writing, writing), theirs.fileno()
        )
        os.close(writing)
        theirs.close()
        await wait_readable(ours.fileno())  # the launcher has closed its end
    answer, passed, printed = await launch(launcher, "/bin/sh", "-c", "echo started; read _")
    os.close(passed[0])
    assert (len(answer), printed) == (4, "started\n")


async def test_a_launcher_that_has_ended_says_so_and_refuses(launcher: Launcher) -> None:
    assert launcher.is_running()
    os.kill(launcher.pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, launcher.pid, os.WEXITED | os.WNOWAIT)
    assert not launcher.is_running()
    with pytest.raises(OSError, match=r"Broken pipe"):
        await launch(launcher, "/bin/echo")


async def test_a_helper_that_has_closed_its_channel_counts_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is about to end, and what it was asked for has failed already."""
    monkeypatch.setattr(helper_program, "_END_S", 0.01)
    hangs_up = "import os, sys, time; os.close(int(sys.argv[-1])); time.sleep(60)"
    program = helper_program.HelperProgram("launcher.py", (sys.executable, "-c", hangs_up), {})
    try:
        async with asyncio.timeout(20):
            await wait_readable(program.channel.fileno())
        assert (program.is_running(), program.has_ended()) == (False, True)
    finally:
        program.end()
