"""The host's end of the fork server, which forks the agents of runs. Its program: `inside/fork_server.py`."""

import asyncio
import marshal
import os
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Final, Self

from skillbus.sandbox.adapters.bubblewrap.descriptors import make_sealed_file
from skillbus.sandbox.adapters.bubblewrap.profile import AgentEntry
from skillbus.sandbox.adapters.inside import read_program
from skillbus.sandbox.adapters.supervision.protocol import MARSHAL_VERSION
from skillbus.sandbox.domain.errors import SandboxUnavailable

IMPORTS: Final = ("json", "pathlib")
"""Modules that most scripts import. json brings re, enum, functools and collections."""
_READY: Final = b"R"
_ERRORS_MAX: Final = 4096
_RETRY_S: Final = 0.005
_END_S: Final = 2.0
"""Normal ends take milliseconds; a stopped process is killed after this time."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """Parts of a fork server."""

    command: Sequence[str]
    """The change of user, if any, and the interpreter."""
    environment: Mapping[str, str]
    """Environment of every run."""
    sources: Mapping[str, str]
    """Source text of the agent's modules."""
    filters: tuple[bytes, bytes]
    """System call filters: without and with a network."""
    forks: int
    """Forks of one interpreter before a new one takes its place."""


class ForkServer:
    """A running fork server. Closed by `close`, or when the last reference to it goes."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: socket.socket, errors: int) -> None:
        self._process, self._channel, self._errors = process, channel, errors
        self._finalize = weakref.finalize(self, _end, process, channel, errors)

    @classmethod
    async def open(cls, plan: ForkPlan, within_s: float) -> Self:
        """Start a fork server, and wait until it is ready. Raises SandboxUnavailable if it is not, or is too old."""
        interpreter = plan.command[-1]
        try:
            server = cls(*_start(plan))
        except OSError as error:
            raise SandboxUnavailable(f"{interpreter} does not work: {error}") from error
        try:
            await server._wait_until_ready(interpreter, within_s)
        except BaseException:
            server.close()
            raise
        return server

    async def _wait_until_ready(self, interpreter: str, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                word = await asyncio.get_running_loop().sock_recv(self._channel, len(_READY))
        except TimeoutError as error:
            raise SandboxUnavailable(f"{interpreter} did not start in {within_s:g} s") from error
        if word != _READY:
            raise SandboxUnavailable(
                f"{interpreter} does not work: it must be Python 3.9 or newer: {self.read_errors()}"
            )

    @property
    def pid(self) -> int:
        """Process id, in the host's numbering."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return True if it accepts requests: it has not ended and was not given up."""
        return self._channel.fileno() >= 0 and self._process.poll() is None

    def has_ended(self) -> bool:
        """Return True if the process has ended."""
        return self._process.poll() is not None

    def give_up(self) -> None:
        """Send no more requests. The server ends after those that it has, and after its forks."""
        self._channel.close()

    async def fork_agent(self, entry: AgentEntry, descriptors: Sequence[int]) -> None:
        """Request a fork that enters a sandbox. Waits while some hundred requests are pending.

        `descriptors` are the sandbox's process 1, the agent's socket to process 1, control socket, stdout and stderr.
        Raises OSError if the server does not accept the request.
        """
        message = marshal.dumps(asdict(entry), MARSHAL_VERSION)
        while True:
            try:
                socket.send_fds(self._channel, [message], descriptors)
            except BlockingIOError:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """End the server. It waits for its forks, so no sandbox may be left. Safe to call again."""
        self._finalize()

    def read_errors(self) -> str:
        """Return the server's own output, which is empty unless it failed."""
        os.set_blocking(self._errors, False)
        try:
            return os.read(self._errors, _ERRORS_MAX).decode(errors="replace").strip()
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
        program = make_sealed_file(theirs, read_program("fork_server.py").encode())
        file = make_sealed_file(theirs, marshal.dumps(parts, MARSHAL_VERSION))
        try:
            process = subprocess.Popen(
                (*plan.command, "-I", "-S", "-B", f"/proc/self/fd/{program}", str(channel), str(file)),
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


def _end(process: "subprocess.Popen[bytes]", channel: socket.socket, errors: int) -> None:
    channel.close()
    os.close(errors)
    try:
        process.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
