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
from typing import Final

from skillbus.common.in_time import in_time
from skillbus.sandbox.adapters.incoming import Incoming

_GONE_S: Final = 10.0
_ATTACH_S: Final = 1.0
"""Bubblewrap names process 1 within milliseconds of its start; one that has not by then never made it."""
_INFO_MAX: Final = 4096


class SandboxProcess:
    """A started sandbox: what it sends, its control socket, and the means to end it."""

    def __init__(self, process: subprocess.Popen[bytes], ends: "Ends") -> None:
        self._process = process
        self._own = ends.ours
        self._passing = ends.control
        try:
            self._bwrap = self._own_fd(os.pidfd_open(process.pid))
        except OSError:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=_GONE_S)
            raise
        self.stdout, self.stderr = self._incoming(ends.stdout), self._incoming(ends.stderr)
        self.control, self._info = self._incoming(ends.control.fileno()), self._incoming(ends.info)
        self._said = b""
        self._init: int | None = None
        self._gone = asyncio.Event()
        self._mounts: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """Bubblewrap's, in the host's numbering."""
        return self._process.pid

    async def attach(self) -> int:
        """Process 1 of the sandbox, in the host's numbering; bubblewrap says it before it starts the agent.

        Raises:
            OSError, ValueError: when bubblewrap ended before.
        """
        while not self._said.endswith(b"}\n"):
            said = await self._info.read(_INFO_MAX)
            if not said:
                raise ProcessLookupError("bubblewrap ended before it started anything")
            self._said += said
        pid = int(json.loads(self._said)["child-pid"])
        self._init = self._own_fd(os.pidfd_open(pid))
        loop = asyncio.get_running_loop()
        loop.add_reader(self._init, self._when_gone, self._init)
        self._own.callback(loop.remove_reader, self._init)
        self._keep_mounts(pid)
        return pid

    async def send(self, job: bytes, stdin: bytes) -> None:
        """To the agent: a job, and what its script reads from standard input."""
        message = len(job).to_bytes(8, "big") + job
        with ExitStack() as stack:
            passed = [_sealed(stack, stdin)] if stdin else []
            # Eight bytes at least always fit into the empty socket; the descriptor travels with them.
            sent = socket.send_fds(self._passing, [message], passed)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._passing, message[sent:])

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

    def finish(self) -> None:
        """Its agent has said its last word, when no other process was left: what has come from it is all."""
        self.kill()
        self.stdout.finish()
        self.stderr.finish()

    async def end(self) -> None:
        """Kill it, and wait until none of its processes is left. Safe to call again.

        Raises:
            TimeoutError: when the kernel does not end a killed process in ten seconds.
        """
        if self._init is None:
            with suppress(OSError, ValueError):
                await in_time(self.attach(), _ATTACH_S)
        if self._gone.is_set():
            return
        self.kill()
        if not await in_time(self._gone.wait() if self._init is not None else _readable(self._bwrap), _GONE_S):
            raise TimeoutError

    async def bury(self) -> None:
        """When it has ended: wait for bubblewrap, which then has nothing to do, and give the descriptors back.

        Raises:
            TimeoutError: as `end`.
        """
        try:
            if not await in_time(_readable(self._bwrap), _GONE_S):
                raise TimeoutError
        finally:
            if self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(timeout=_GONE_S)
            self._own.close()

    def _when_gone(self, init: int) -> None:
        """Process 1 is dead: with it every other process of the sandbox is, and nobody writes any more."""
        asyncio.get_running_loop().remove_reader(init)
        self._gone.set()
        for incoming in (self.stdout, self.stderr, self.control):
            incoming.finish()

    def let_go_of_mounts(self) -> None:
        """When it is buried. Blocking: this may take them down."""
        for descriptor in self._mounts:
            os.close(descriptor)
        self._mounts = ()

    def _keep_mounts(self, init: int) -> None:
        """Else process 1 takes them down at its end, and waits for all processors at that."""
        with suppress(OSError):  # who may not look into it waits
            self._mounts = (os.open(f"/proc/{init}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC),)

    def _own_fd(self, descriptor: int) -> int:
        self._own.callback(os.close, descriptor)
        return descriptor

    def _incoming(self, descriptor: int) -> Incoming:
        incoming = Incoming(descriptor)
        self._own.callback(incoming.stop)
        return incoming


class Ends:
    """The pairs of descriptors between host and sandbox: theirs are closed after the start, ours with `ours`."""

    def __init__(self, theirs: ExitStack, owner: int | None) -> None:
        self.ours = ExitStack()
        try:
            self.stdout, self.their_stdout = _pipe(self.ours, theirs, owner)
            self.stderr, self.their_stderr = _pipe(self.ours, theirs, owner)
            self.info, self.their_info = _pipe(self.ours, theirs, None)
            self.control, other = socket.socketpair()
            self.ours.enter_context(self.control).setblocking(False)
            self.their_control = theirs.enter_context(other).fileno()
        except BaseException:
            self.ours.close()
            raise


def _pipe(ours: ExitStack, theirs: ExitStack, owner: int | None) -> tuple[int, int]:
    """A pipe whose writing end the user `owner` can open again, as `echo > /dev/stderr` does."""
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    if owner is not None:
        os.fchown(writing, owner, owner)
    return reading, writing


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
            ends.ours.close()
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
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:] if written else content, written)
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
