"""One sandbox as processes and descriptors of the host."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from skillbus.common.background import finish_within
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkServer
from skillbus.sandbox.adapters.bubblewrap.incoming import Incoming
from skillbus.sandbox.adapters.bubblewrap.memory_files import in_memory, sealed
from skillbus.sandbox.adapters.bubblewrap.profile import Entry
from skillbus.sandbox.adapters.waits import wait_readable

_GONE_S: Final = 10.0
_ATTACH_S: Final = 1.0
"""Bubblewrap names process 1 within milliseconds of its start; one that has not by then never made it."""
_INFO_MAX: Final = 4096
_READY: Final = b"R\0\0\0\4"
"""The head of the agent's first frame; its number follows."""


class SandboxProcess:
    """A started sandbox: what it sends, its control socket, and the means to end it."""

    def __init__(self, process: subprocess.Popen[bytes], ends: "Ends") -> None:
        self._process = process
        self._own, self._agents = ends.ours, ends.of_agent
        self._passing = ends.control
        self._passed = (ends.their_init, ends.their_control, ends.their_stdout, ends.their_stderr)
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
        self._agent: int | None = None
        self._gone, self._agent_gone = asyncio.Event(), asyncio.Event()
        self._mounts: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """Bubblewrap's, in the host's numbering."""
        return self._process.pid

    async def attach(self) -> int:
        """Process 1 of the sandbox, in the host's numbering; bubblewrap says it before it has made the sandbox.

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
        self._when_ended(self._init, self._gone, self.stdout, self.stderr)
        self._keep_mounts(pid)
        return pid

    async def enter(self, server: ForkServer, entry: Entry) -> int:
        """Have an agent enter it, and wait for its first word: its process, in the host's numbering. After `attach`.

        Raises:
            OSError, ValueError: The sandbox was not made, or the agent did not come in.
        """
        if self._init is None:
            raise ValueError("attach comes first")
        await server.fork(entry, (self._init, *self._passed))
        self._agents.close()
        await wait_readable(self._passing.fileno())
        word, passed, _, _ = socket.recv_fds(self._passing, len(_READY) + 4, 1)
        for descriptor in passed:
            self._agent = self._own_fd(descriptor)
            self._when_ended(descriptor, self._agent_gone, self.control)
        if not word.startswith(_READY) or self._agent is None:
            raise ProcessLookupError("its agent ended before its first word" if not word else f"it began with {word!r}")
        return int.from_bytes(word[len(_READY) :], "big")

    async def send(self, job: bytes, stdin: bytes) -> None:
        """To the agent: a job, and what its script reads from standard input."""
        message = len(job).to_bytes(8, "big") + job
        with ExitStack() as stack:
            # A file in memory rather than a pipe, so that a script that does not read it blocks nobody.
            passed = [sealed(stack, stdin)] if stdin else []
            # Eight bytes at least always fit into the empty socket; the descriptor travels with them.
            sent = socket.send_fds(self._passing, [message], passed)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._passing, message[sent:])

    def is_running(self) -> bool:
        """Whether bubblewrap has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End every process of it, now. Safe to call again.

        Only its agent and process 1 are killed, and with that all of the sandbox: bubblewrap then buries it and ends by
        itself. Killed together with it, it would leave a zombie to the host's process 1, which in a container may bury
        nobody.
        """
        self._agents.close()
        if self._init is None:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            return
        for one in (self._init, self._agent):
            if one is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(one, signal.SIGKILL)

    def finish(self) -> None:
        """Its agent has said its last word, when no other process was left: what has come from it is all."""
        self.kill()
        self.stdout.finish()
        self.stderr.finish()

    async def end(self) -> None:
        """Kill it, and wait until none of its processes is left but its agent, which ends now. Safe to call again.

        Raises:
            TimeoutError: when the kernel does not end a killed process in ten seconds.
        """
        if self._init is None:
            with suppress(OSError, ValueError):
                await finish_within(self.attach(), _ATTACH_S)
        self._agents.close()
        if not self._gone.is_set():
            self.kill()
            if not await finish_within(
                self._gone.wait() if self._init is not None else wait_readable(self._bwrap), _GONE_S
            ):
                raise TimeoutError
        if self._agent is None:
            await finish_within(self._until_nobody_speaks(), _ATTACH_S)

    async def _until_nobody_speaks(self) -> None:
        """An agent that was on its way in and is not known yet ends by itself: it can enter no more, nor get a job."""
        with suppress(OSError):
            self._passing.shutdown(socket.SHUT_WR)
        while await _received(self._passing):
            continue

    async def bury(self) -> None:
        """When it has ended: wait for its agent and for bubblewrap, which then have nothing to do, and let go of all.

        Raises:
            TimeoutError: as `end`.
        """
        self.kill()  # its agent may still be telling what nobody hears any more
        try:
            agents = [] if self._agent is None else [self._agent_gone.wait()]
            if not await finish_within(asyncio.gather(wait_readable(self._bwrap), *agents), _GONE_S):
                raise TimeoutError
        finally:
            if self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(timeout=_GONE_S)
            self._own.close()

    def _when_ended(self, process: int, ended: asyncio.Event, *incoming: Incoming) -> None:
        """Nothing more comes then: from process 1 and all others in the sandbox, or from the agent."""
        loop = asyncio.get_running_loop()

        def note() -> None:
            loop.remove_reader(process)
            ended.set()
            for one in incoming:
                one.finish()

        loop.add_reader(process, note)
        self._own.callback(loop.remove_reader, process)

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
    """The pairs of descriptors between host and sandbox, in stacks that are closed when each has been handed over."""

    def __init__(self, owner: int | None) -> None:
        self.ours, self.of_bwrap, self.of_agent = ExitStack(), ExitStack(), ExitStack()
        try:
            self.stdout, self.their_stdout = _pipe(self.ours, self.of_agent, owner)
            self.stderr, self.their_stderr = _pipe(self.ours, self.of_agent, owner)
            self.info, self.their_info = _pipe(self.ours, self.of_bwrap, None)
            self.control, other = socket.socketpair()
            self.ours.enter_context(self.control).setblocking(False)
            self.their_control = self.of_agent.enter_context(other).fileno()
            # Between process 1 and its agent.
            first, second = socket.socketpair()
            self.of_init = self.of_bwrap.enter_context(first).fileno()
            self.their_init = self.of_agent.enter_context(second).fileno()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """All of them."""
        for stack in (self.of_bwrap, self.of_agent, self.ours):
            stack.close()


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
    entry: Entry
    """How its agent enters it."""


def start(plan: Start) -> SandboxProcess:
    """Start a sandbox. To be called in the event loop's thread: the sandbox dies with the thread that started it."""
    ends = Ends(plan.owner)
    try:
        return SandboxProcess(_spawn(plan, ends), ends)
    except BaseException:
        ends.close()
        raise


def _spawn(plan: Start, ends: Ends) -> subprocess.Popen[bytes]:
    with ExitStack() as files, ends.of_bwrap:
        argv, inherited = plan.command(ends, {name: in_memory(files, data) for name, data in plan.contents.items()})
        return subprocess.Popen(
            argv,
            stdin=ends.of_init,
            stdout=ends.of_init,
            stderr=ends.their_stderr,
            pass_fds=inherited,
            env=dict(plan.environment),
            start_new_session=True,
        )


async def _received(peer: socket.socket) -> bytes:
    await wait_readable(peer.fileno())
    try:
        return peer.recv(_INFO_MAX)
    except ConnectionError:
        return b""
