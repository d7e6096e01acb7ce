"""The host's end of the fork server: the process whose forks become the agents of runs. See `fork_server.py`."""

import asyncio
import marshal
import os
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from skillbus.sandbox.adapters.bubblewrap.memory_files import sealed
from skillbus.sandbox.adapters.bubblewrap.profile import Entry
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.domain.errors import SandboxUnavailable

IMPORTS: Final = ("json", "pathlib")
"""Which most scripts ask for; with json come re, enum, functools and collections."""
_READY: Final = b"R"
_MARSHAL_VERSION: Final = 4
_SAID_MAX: Final = 4096
_AGAIN_S: Final = 0.005
_ENDS_S: Final = 2.0
"""It ends within milliseconds, unless it is stopped."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """What a fork server is."""

    path: Path
    environment: Mapping[str, str]
    """Of every run."""
    sources: Mapping[str, str]
    """Of the agent's modules."""
    filters: tuple[bytes, bytes]
    """Of system calls: without a network, with one."""
    forks: int
    """Made of one interpreter, before another takes its place."""


class ForkServer:
    """Started by `open`, ended by `close` or when nobody knows it any more."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: socket.socket, said: int) -> None:
        self._process, self._channel, self._said = process, channel, said
        self._let_go = weakref.finalize(self, _end, process, channel, said)

    @classmethod
    async def open(cls, plan: ForkPlan, within_s: float) -> Self:
        """Start it, and wait until it is ready.

        Raises:
            SandboxUnavailable: The interpreter does not start, or does not know what it has to.
        """
        try:
            server = cls(*_start(plan))
        except OSError as error:
            raise SandboxUnavailable(f"{plan.path} does not work: {error}") from error
        try:
            await server._until_ready(plan.path, within_s)
        except BaseException:
            server.close()
            raise
        return server

    async def _until_ready(self, path: Path, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                word = await asyncio.get_running_loop().sock_recv(self._channel, len(_READY))
        except TimeoutError as error:
            raise SandboxUnavailable(f"{path} did not start in {within_s:g} s") from error
        if word != _READY:
            raise SandboxUnavailable(f"{path} does not work: it must be Python 3.9 or newer: {self.words()}")

    @property
    def pid(self) -> int:
        """In the host's numbering."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it takes orders: it has not ended, and was not given up."""
        return self._channel.fileno() >= 0 and self._process.poll() is None

    def give_up(self) -> None:
        """It does not do what it is told: it gets no more orders, and ends when it has done those that it has."""
        self._channel.close()

    async def fork(self, entry: Entry, descriptors: Sequence[int]) -> None:
        """Have a fork enter a sandbox; where some hundred others wait for theirs, wait for room.

        Args:
            entry: How.
            descriptors: Of the sandbox: process 1, the socket that it holds, the control socket, output, error.

        Raises:
            OSError: It does not take it.
        """
        message = marshal.dumps(asdict(entry), _MARSHAL_VERSION)
        while True:
            try:
                socket.send_fds(self._channel, [message], descriptors)
            except BlockingIOError:
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    def close(self) -> None:
        """When no sandbox is left: its forks keep it. Safe to call again."""
        self._let_go()

    def words(self) -> str:
        """What it said of its own, which is nothing unless it failed."""
        os.set_blocking(self._said, False)
        try:
            return os.read(self._said, _SAID_MAX).decode(errors="replace").strip()
        except BlockingIOError:
            return ""


def _start(plan: ForkPlan) -> tuple["subprocess.Popen[bytes]", socket.socket, int]:
    parts = {
        "sources": dict(plan.sources),
        "filters": plan.filters,
        "imports": list(IMPORTS),
        "forks": plan.forks,
    }
    with ExitStack() as theirs:
        ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = theirs.enter_context(other).fileno()
        reading, writing = os.pipe()
        theirs.callback(os.close, writing)
        program = sealed(theirs, read_program("fork_server.py").encode())
        file = sealed(theirs, marshal.dumps(parts, _MARSHAL_VERSION))
        try:
            process = subprocess.Popen(
                (plan.path, "-I", "-S", "-B", f"/proc/self/fd/{program}", str(channel), str(file)),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=(program, channel, file),
                env=dict(plan.environment),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        ours.setblocking(False)
        return process, ours, reading


def _end(process: "subprocess.Popen[bytes]", channel: socket.socket, said: int) -> None:
    channel.close()
    os.close(said)
    try:
        process.wait(timeout=_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
