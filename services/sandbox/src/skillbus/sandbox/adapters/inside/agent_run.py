"""Serves a run: takes the job, has it run, and reports its end. Never imported by the service.

In a warm sandbox a process waits that was forked or started before the job is known.
"""

from __future__ import annotations

import marshal
import os
import resource
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillbus.sandbox.adapters.inside import agent, agent_python, agent_sandbox
else:
    agent, agent_python, agent_sandbox = (sys.modules[f"agent{part}"] for part in ("", "_python", "_sandbox"))


class WaitingFork:
    """Fork of the agent that becomes a Python or bash script.

    The fork receives the job itself, and passes it to the agent while the script is already starting.
    """

    child = 0
    """Process id of the fork; 0 in the fork."""

    def __init__(self) -> None:
        self.peer, theirs = socket.socketpair()
        self.child = agent_sandbox.fork_session()
        if self.child:
            theirs.close()
        else:
            self.peer.close()
            self.peer = theirs
            agent_python.rehearse_script()

    def receive_job(self) -> tuple[bytes, int | None]:
        """Return the encoded job. Only the fork gets the descriptor of standard input."""
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

    def run_script(self, job: agent_sandbox.SandboxJob, stdin: int | None) -> int:
        """Return the process id of the fork, which already runs the script; 0 in the fork."""
        return self.child


class WaitingNode:
    """Node that has started. It gets its script through a socket and its standard input through a file."""

    def __init__(self, program: str, boot: str) -> None:
        reading, self.stdin = self.make_stdin()
        ours, theirs = socket.socketpair()
        self.child = agent_sandbox.fork_session()
        if self.child == 0:
            os.dup2(reading, 0)
            os.dup2(theirs.detach(), 3)
            agent.close_from(4)
            agent.default_signals()
            os.execv(program, [program, boot])  # noqa: S606 - no shell may interpret the arguments
        os.close(reading)
        theirs.close()
        self.peer = ours
        ours.recv(1)

    @staticmethod
    def make_stdin() -> tuple[int, int]:
        """Make a file without a name; return descriptors to read and to write it."""
        name = "/tmp/.stdin"  # noqa: S108 - nothing else runs in the sandbox yet
        writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        reading = os.open(name, os.O_RDONLY)
        os.unlink(name)  # noqa: PTH108 - pathlib costs more than all the rest
        return reading, writing

    def receive_job(self) -> tuple[bytes, int | None]:
        """Return the encoded job and the descriptor of its standard input."""
        return agent_sandbox.receive_job()

    def run_script(self, job: agent_sandbox.SandboxJob, stdin: int | None) -> int:
        """Let Node run the script of a job; return its process id."""
        while stdin is not None and (chunk := os.read(stdin, 1 << 20)):
            os.write(self.stdin, chunk)
        os.close(self.stdin)
        for kind, limits in job["rlimits"].items():
            resource.prlimit(self.child, kind, limits)
        self.peer.sendall(b"".join(os.fsencode(word) + b"\0" for word in job["exec"][1:]))
        self.peer.close()
        return self.child


def serve_run(warm: list[str] | None) -> agent_sandbox.SandboxJob:
    """Serve one run. The agent exits in here; only the process of a Python script returns, with the job.

    `warm` is the command of a Node to start before the job, or empty for a fork that becomes a Python or bash script.
    """
    own = os.pidfd_open(os.getpid())
    waiting: WaitingFork | WaitingNode | None = None
    if warm is not None:
        waiting = WaitingNode(*warm) if warm else WaitingFork()
    if waiting is None or waiting.child:
        agent_sandbox.report_ready(own)
    written, stdin = waiting.receive_job() if waiting is not None else agent_sandbox.receive_job()
    job: agent_sandbox.SandboxJob = marshal.loads(written)  # noqa: S302 - from the host
    child = agent_sandbox.fork_script(job) if waiting is None else waiting.run_script(job, stdin)
    if child == 0:
        agent_sandbox.become_script(job, stdin)
        return job
    if stdin is not None:
        os.close(stdin)
    report = agent.FrameBuffer()
    report.add_frame(b"X", agent_sandbox.reap_script(child))
    agent.Collector(job["artifacts"], job["artifacts_bytes"], report.add_frame).collect_files()
    report.add_frame(b"E")
    report.flush()
    os._exit(0)
