"""One sandbox as processes and descriptors of the host."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import FileIO
from typing import Final

from skillbus.common.in_time import in_time

_GONE_S: Final = 10.0
_ATTACH_S: Final = 1.0
"""Bubblewrap names process 1 within milliseconds of its start; one that has not by then never made it."""
_INFO_MAX: Final = 4096


class SandboxProcess:
    """A started sandbox: its streams, its control socket, and the means to end it."""

    def __init__(self, process: subprocess.Popen[bytes], ends: "Ends") -> None:
        self._process = process
        self._ends = ends
        self._own = ExitStack()
        try:
            self._bwrap = self._own_fd(os.pidfd_open(process.pid))
        except OSError:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=_GONE_S)
            raise
        self._info = self._own_fd(ends.info)
        self._said = b""
        self._init: int | None = None

    @property
    def pid(self) -> int:
        """Bubblewrap's, in the host's numbering."""
        return self._process.pid

    async def connect(self) -> None:
        """Open the streams; to be awaited once, right after the start."""
        self.stdout = await self._open_pipe(self._ends.stdout)
        self.stderr = await self._open_pipe(self._ends.stderr)
        self._passing = self._own.enter_context(self._ends.control.dup())
        self.control, self._writer = await asyncio.open_connection(sock=self._ends.control)
        self._own.callback(self._writer.close)

    async def attach(self) -> int:
        """Process 1 of the sandbox, in the host's numbering; bubblewrap says it before it starts the agent.

        Raises:
            OSError, ValueError: when bubblewrap ended before.
        """
        while not self._said.endswith(b"}\n"):
            await _readable(self._info)
            said = os.read(self._info, _INFO_MAX)
            if not said:
                raise ProcessLookupError("bubblewrap ended before it started anything")
            self._said += said
        pid = int(json.loads(self._said)["child-pid"])
        self._init = self._own_fd(os.pidfd_open(pid))
        return pid

    async def send(self, job: bytes, stdin: bytes) -> None:
        """To the agent: a job, and what its script reads from standard input."""
        with ExitStack() as stack:
            passed = [_sealed(stack, stdin)] if stdin else []
            # Eight bytes always fit into the empty socket; the descriptor travels with them.
            socket.send_fds(self._passing, [len(job).to_bytes(8, "big")], passed)
        self._writer.write(job)
        await self._writer.drain()

    def is_running(self) -> bool:
        """Whether bubblewrap has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End every process of it, now. Safe to call again.

        Only process 1 is killed, and with it all of the sandbox: bubblewrap then buries it and ends by itself. Killed
        together with it, it would leave a zombie to the host's process 1, which in a container may bury nobody.
        """
        with suppress(ProcessLookupError):
            if self._init is not None:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            elif self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, wait until nothing of it is left, and give every descriptor back.

        Raises:
            TimeoutError: when the kernel does not end a killed process in ten seconds.
        """
        try:
            if self._init is None:
                with suppress(OSError, ValueError):
                    await in_time(self.attach(), _ATTACH_S)
            self.kill()
            for descriptor in (self._init, self._bwrap):
                if descriptor is not None and not await in_time(_readable(descriptor), _GONE_S):
                    raise TimeoutError
        finally:
            self._bury()

    def _bury(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=_GONE_S)
        self._own.close()
        self._ends.close()

    def _own_fd(self, descriptor: int) -> int:
        self._own.callback(os.close, descriptor)
        return descriptor

    async def _open_pipe(self, pipe: FileIO) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        # A descriptor of the transport's own: uvloop closes it some time after close(), without telling `pipe`, and
        # the number may be another's by then.
        own = FileIO(os.dup(pipe.fileno()))
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), own)
        self._own.callback(transport.close)
        return reader


class Ends:
    """The pairs of descriptors between host and sandbox: ours are attributes, theirs are closed after the start."""

    def __init__(self, theirs: ExitStack, owner: int | None) -> None:
        stdout, self.their_stdout = _pipe(theirs, owner)
        stderr, self.their_stderr = _pipe(theirs, owner)
        self.info, self.their_info = _pipe(theirs, None)
        self.stdout, self.stderr = FileIO(stdout), FileIO(stderr)
        self.control, other = socket.socketpair()
        self.their_control = theirs.enter_context(other).fileno()

    def close(self) -> None:
        """Our ends, as far as nobody else has taken them over."""
        for end in (self.stdout, self.stderr):
            end.close()
        self.control.close()


def _pipe(theirs: ExitStack, owner: int | None) -> tuple[int, int]:
    """A pipe whose writing end the user `owner` can open again, as `echo > /dev/stderr` does."""
    ours, other = os.pipe()
    theirs.callback(os.close, other)
    if owner is not None:
        os.fchown(other, owner, owner)
    return ours, other


@dataclass(frozen=True, slots=True)
class Start:
    """What a sandbox is started with."""

    command: Callable[["Ends", Mapping[str, int]], tuple[Sequence[str], tuple[int, ...]]]
    """From our descriptors and those of `contents` to the argument list, and the descriptors to inherit."""
    contents: Mapping[str, bytes]
    """To be inherited as files in memory, by name."""
    owner: int | None
    """The user that the sandbox becomes, when it is another one."""
    environment: Mapping[str, str]


def start(plan: Start) -> SandboxProcess:
    """Start a sandbox. To be called in the event loop's thread: the sandbox dies with the thread that started it."""
    with ExitStack() as theirs:
        ends = Ends(theirs, plan.owner)
        try:
            return SandboxProcess(_spawn(plan, ends, theirs), ends)
        except BaseException:
            os.close(ends.info)
            ends.close()
            raise


def _spawn(plan: Start, ends: Ends, theirs: ExitStack) -> subprocess.Popen[bytes]:
    argv, inherited = plan.command(ends, {name: _in_memory(theirs, data) for name, data in plan.contents.items()})
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=ends.their_stdout,
        stderr=ends.their_stderr,
        pass_fds=inherited,
        env=dict(plan.environment),
        start_new_session=True,
    )


def _in_memory(stack: ExitStack, content: bytes) -> int:
    descriptor = os.memfd_create("skillbus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _sealed(stack: ExitStack, content: bytes) -> int:
    """Standard input: a file in memory rather than a pipe, so that a script that does not read it blocks nobody."""
    writable = _in_memory(stack, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(writable, fcntl.F_ADD_SEALS, seals)
    descriptor = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
