"""How a sandbox waits for its job: what is forked and rehearsed, or started, here is not done in the time of a run.

Another part of the agent, never imported.
"""

from __future__ import annotations

import os
import resource
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillbus.sandbox.adapters.inside import agent, agent_python, agent_sandbox
else:
    agent, agent_python, agent_sandbox = (sys.modules[f"agent{part}"] for part in ("", "_python", "_sandbox"))


def wait(node: list[str]) -> WaitingFork | WaitingNode:
    """For Node, given its program and the file that it starts with, or for Python and bash."""
    if node:
        return WaitingNode(*node)
    return WaitingFork()


class WaitingFork:
    """A fork of the agent that waits to become a script, of Python or of bash: it takes the job itself.

    The agent hears from it what the job is, when the script is on its way already.
    """

    child = 0
    """Its process; 0 in itself."""

    def __init__(self) -> None:
        self.peer, theirs = socket.socketpair()
        self.child = agent_sandbox.fork()
        if self.child:
            theirs.close()
        else:
            self.peer.close()
            self.peer = theirs
            agent_python.rehearse()

    def receive(self) -> tuple[bytes, int | None]:
        """The job; standard input is the fork's alone."""
        if self.child == 0:
            written, stdin = agent_sandbox.receive_job()
            self.peer.sendall(written)
            self.peer.close()
            return written, stdin
        written = b""
        while chunk := self.peer.recv(1 << 20):
            written += chunk
        if not written:  # the host is gone, and the fork with it
            os._exit(3)
        return written, None

    def run(self, job: agent_sandbox.Job, stdin: int | None) -> int:
        """Its process, which runs the script of a job already; 0 in itself."""
        return self.child


class WaitingNode:
    """A Node that has started, with a socket to tell it its script and a file to give it its standard input."""

    def __init__(self, program: str, boot: str) -> None:
        reading, self.stdin = self.make_stdin()
        ours, theirs = socket.socketpair()
        self.child = agent_sandbox.fork()
        if self.child == 0:
            os.dup2(reading, 0)
            os.dup2(theirs.detach(), 3)
            agent.close_from(4)
            agent.default_signals()
            os.execv(program, [program, boot])  # noqa: S606 - a shell is what must not come between
        os.close(reading)
        theirs.close()
        self.peer = ours
        ours.recv(1)

    @staticmethod
    def make_stdin() -> tuple[int, int]:
        """A file that has no name any more, to read and to write."""
        name = "/tmp/.stdin"  # noqa: S108 - nothing else runs yet
        writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        reading = os.open(name, os.O_RDONLY)
        os.unlink(name)  # noqa: PTH108 - pathlib costs more than all the rest
        return reading, writing

    def receive(self) -> tuple[bytes, int | None]:
        """The job, and the descriptor of its standard input."""
        return agent_sandbox.receive_job()

    def run(self, job: agent_sandbox.Job, stdin: int | None) -> int:
        """Its process, which runs the script of a job from now on."""
        while stdin is not None and (chunk := os.read(stdin, 1 << 20)):
            os.write(self.stdin, chunk)
        os.close(self.stdin)
        for kind, limits in job["rlimits"].items():
            resource.prlimit(self.child, kind, limits)
        self.peer.sendall(b"".join(os.fsencode(word) + b"\0" for word in job["exec"][1:]))
        self.peer.close()
        return self.child
