"""One sandbox as processes and file descriptors of the host."""

import asyncio
import json
import os
import select
import signal
import socket
from contextlib import ExitStack, suppress
from typing import Final

from skillbus.common.background import finish_within
from skillbus.sandbox.adapters.bubblewrap.descriptors import IncomingStream, make_sealed_file
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkServer
from skillbus.sandbox.adapters.bubblewrap.profile import AgentEntry
from skillbus.sandbox.adapters.host import wait_readable

_END_S: Final = 10.0
_ATTACH_S: Final = 1.0
"""Bubblewrap reports process 1 within milliseconds. If it has not by then, process 1 was never made."""
_CHUNK: Final = 4096
_PID: Final = 4
"""Bytes of a process id in the launcher's answer."""
_READY: Final = b"R\0\0\0\4"
"""Header of the agent's first frame; its process id follows."""


class SandboxPipes:
    """Pairs of descriptors between host and sandbox, in one exit stack for each owner."""

    def __init__(self, owner: int | None) -> None:
        """`owner` is the user of the sandbox, if it is not the service's own."""
        self.ours, self.of_bwrap, self.of_agent = ExitStack(), ExitStack(), ExitStack()
        try:
            self.stdout, self.their_stdout = _open_pipe(self.ours, self.of_agent, owner)
            self.stderr, self.their_stderr = _open_pipe(self.ours, self.of_agent, owner)
            self.info, self.their_info = _open_pipe(self.ours, self.of_bwrap, None)
            self.control, other = socket.socketpair()
            self.ours.enter_context(self.control).setblocking(False)
            self.their_control = self.of_agent.enter_context(other).fileno()
            # Between process 1 and the agent: a byte says that the sandbox is made, the end of the socket ends both.
            first, second = socket.socketpair()
            self.of_init = self.of_bwrap.enter_context(first).fileno()
            self.their_init = self.of_agent.enter_context(second).fileno()
            self.launched, other = socket.socketpair()
            self.ours.enter_context(self.launched).setblocking(False)
            self.their_launched = self.of_bwrap.enter_context(other).fileno()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all of them."""
        for stack in (self.of_bwrap, self.of_agent, self.ours):
            stack.close()


class SandboxProcess:
    """A started sandbox: its output, its control socket, and the means to end it."""

    def __init__(self, pipes: SandboxPipes) -> None:
        """`pipes` are those of a sandbox whose bubblewrap the launcher was asked to start."""
        self._own, self._agents = pipes.ours, pipes.of_agent
        self._passing, self._launched = pipes.control, pipes.launched
        self._passed = (pipes.their_init, pipes.their_control, pipes.their_stdout, pipes.their_stderr)
        self.pid = 0
        """Process id of bubblewrap, in the host's numbering; 0 before `attach`."""
        self.stdout, self.stderr = self._read_from(pipes.stdout), self._read_from(pipes.stderr)
        self.control, self._info = self._read_from(pipes.control.fileno()), self._read_from(pipes.info)
        self._reported = b""
        self._bwrap: int | None = None
        self._init: int | None = None
        self._agent: int | None = None
        self._bwrap_ended, self._init_ended, self._agent_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def attach(self) -> int:
        """Return the process id of process 1, in the host's numbering. The sandbox is not yet made then.

        Raises OSError or ValueError if bubblewrap ended before.
        """
        if self._bwrap is None:
            await self._find_bubblewrap()
        while not self._reported.endswith(b"}\n"):
            chunk = await self._info.read(_CHUNK)
            if not chunk:
                raise ProcessLookupError("bubblewrap ended before it started anything")
            self._reported += chunk
        pid = int(json.loads(self._reported)["child-pid"])
        self._init = self._own_fd(os.pidfd_open(pid))
        self._when_ended(self._init, self._init_ended, self.stdout, self.stderr)
        return pid

    async def _find_bubblewrap(self) -> None:
        await wait_readable(self._launched.fileno())
        answer, passed, _, _ = socket.recv_fds(self._launched, _PID, 1)
        if not passed:
            self._bwrap_ended.set()
            raise ProcessLookupError("bubblewrap did not start")
        self.pid, self._bwrap = int.from_bytes(answer, "big"), self._own_fd(passed[0])
        self._when_ended(self._bwrap, self._bwrap_ended)

    async def enter_agent(self, server: ForkServer, entry: AgentEntry) -> int:
        """Let an agent enter, after `attach`. Return its process id, in the host's numbering, once it is ready.

        Raises OSError or ValueError if the sandbox was not made, or the agent did not enter it.
        """
        if self._init is None:
            raise ValueError("attach comes first")
        await server.fork_agent(entry, (self._init, *self._passed))
        self._agents.close()
        await wait_readable(self._passing.fileno())
        word, passed, _, _ = socket.recv_fds(self._passing, len(_READY) + 4, 1)
        for descriptor in passed:
            self._agent = self._own_fd(descriptor)
            self._when_ended(descriptor, self._agent_ended, self.control)
        if not word.startswith(_READY) or self._agent is None:
            raise ProcessLookupError("its agent ended before it was ready" if not word else f"it began with {word!r}")
        return int.from_bytes(word[len(_READY) :], "big")

    async def send_job(self, job: bytes, stdin: bytes, channel: socket.socket | None = None) -> None:
        """Send the agent its job and the script's standard input, or its tool channel in place of it."""
        message = len(job).to_bytes(8, "big") + job
        with ExitStack() as stack:
            # Standard input is a file in memory, not a pipe: a script that does not read it blocks nobody.
            passed = [make_sealed_file(stack, stdin)] if stdin else []
            if channel is not None:
                passed = [stack.enter_context(channel).fileno()]
            # At least eight bytes fit into the empty socket; the descriptor travels with them.
            sent = socket.send_fds(self._passing, [message], passed)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._passing, message[sent:])

    def is_running(self) -> bool:
        """Return True until bubblewrap has ended."""
        return not self._bwrap_ended.is_set() and (self._bwrap is None or not _wait_for_end(self._bwrap, 0))

    def kill(self) -> None:
        """Kill every process of the sandbox. Safe to call again.

        Kills process 1, and with it the whole sandbox, and the agent. Bubblewrap then reaps process 1 and ends by
        itself: killed together with it, it would leave a zombie to the host's process 1, which in a container may never
        reap it. An agent that has not reported is told that no job will come, and ends. Until then it may have a killed
        child that it does not reap, such as Node, and process 1 ends after that child.
        """
        self._agents.close()
        if self._init is None:
            self._kill_group()
            return
        for process in (self._init, self._agent):
            if process is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
        if self._agent is None:
            with suppress(OSError):
                self._passing.shutdown(socket.SHUT_WR)

    def finish(self) -> None:
        """Take the output received so far as complete: the agent has reported the end, and no other process is left."""
        self.kill()
        self.stdout.finish()
        self.stderr.finish()

    async def end(self) -> None:
        """Kill the sandbox and wait until no process but its ending agent is left. Safe to call again.

        Raises TimeoutError if the kernel has not ended a killed process in ten seconds.
        """
        if self._init is None:
            with suppress(OSError, ValueError):
                await finish_within(self.attach(), _ATTACH_S)
            if self._bwrap is None:  # a launcher that hangs does not start it later
                self._bwrap_ended.set()
        self._agents.close()
        if not self._init_ended.is_set():
            self.kill()
            ended = self._init_ended if self._init is not None else self._bwrap_ended
            if not await finish_within(ended.wait(), _END_S):
                raise TimeoutError(f"the sandbox's process 1 has not ended in {_END_S:g} s")
        if self._agent is None:
            await finish_within(self._wait_for_unknown_agent(), _ATTACH_S)

    async def _wait_for_unknown_agent(self) -> None:
        """Wait for the end of an agent that has not reported: it can neither enter any more nor get a job."""
        with suppress(ConnectionError):
            while True:
                await wait_readable(self._passing.fileno())
                if not self._passing.recv(_CHUNK):
                    return

    async def reap(self) -> None:
        """Wait for the agent and bubblewrap of a sandbox that has ended, then close every descriptor.

        Raises TimeoutError as `end` does.
        """
        self.kill()  # the agent may still be reporting
        try:
            if not await finish_within(self._wait_for_all(), _END_S):
                raise TimeoutError(f"bubblewrap or the agent has not ended in {_END_S:g} s")
        finally:
            self._kill_group()
            if self._bwrap is not None:
                _wait_for_end(self._bwrap, _END_S)
                self._bwrap_ended.set()
            self._own.close()

    def _kill_group(self) -> None:
        """Kill bubblewrap and its child, if bubblewrap has not ended. They keep their group's number from reuse."""
        if self._bwrap is not None and self.is_running():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _wait_for_all(self) -> None:
        await self._bwrap_ended.wait()
        if self._agent is not None:
            await self._agent_ended.wait()

    def _when_ended(self, process: int, ended: asyncio.Event, *streams: IncomingStream) -> None:
        """Set `ended` and finish the streams of a process, given by its pidfd, once it has ended."""
        loop = asyncio.get_running_loop()

        def note() -> None:
            loop.remove_reader(process)
            ended.set()
            for stream in streams:
                stream.finish()

        loop.add_reader(process, note)
        self._own.callback(loop.remove_reader, process)

    def _own_fd(self, descriptor: int) -> int:
        self._own.callback(os.close, descriptor)
        return descriptor

    def _read_from(self, descriptor: int) -> IncomingStream:
        stream = IncomingStream(descriptor)
        self._own.callback(stream.stop)
        return stream


def _wait_for_end(process: int, at_most_s: float) -> bool:
    """Wait for the end of a process, given by its pidfd. Blocking. Return False if it has not ended in time."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(1000 * at_most_s))


def _open_pipe(ours: ExitStack, theirs: ExitStack, owner: int | None) -> tuple[int, int]:
    """Open a pipe. The user `owner` can open its writing end again by name, as `echo > /dev/stderr` does."""
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    if owner is not None:
        os.fchown(writing, owner, owner)
    return reading, writing
