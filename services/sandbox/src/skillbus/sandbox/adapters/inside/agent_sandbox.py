"""Agent of one run: a fork of the fork server that enters the run's sandbox and is the parent of the script.

The agent joins every namespace of the sandbox except the process namespace, which only its children are in: no process
there can see, signal or inspect it. It enters before any file of the skill is there, and by then has no capability and
no system call more than the script.

It receives the job, starts the script and waits for its end. Then it kills process 1, and with it all other processes
of the sandbox, collects artifacts and exits. A Python script runs in a fork of the agent; others replace such a fork.

For a warm sandbox it makes the script's process before the job arrives, or starts Node: see `agent_run.py`. The job
comes with a descriptor of standard input, unless that is empty, or of the tool channel of a program.

It writes the frames of `agent.py`, and before them one that carries a pidfd of the agent:

    R  ready for a job: its process id, four bytes
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from skillbus.sandbox.adapters.inside import agent

    class EntryMessage(TypedDict):
        """The host's description of a started sandbox."""

        namespaces: int
        environment: dict[str, str]
        network: bool
        warm: list[str] | None

    class SandboxJob(TypedDict):
        """The host's description of a run."""

        script: str
        argv: list[str]
        path: list[str]
        packages: list[str]
        exec: list[str]
        channel: bool
        rlimits: dict[int, tuple[int, int]]
        artifacts: int
        artifacts_bytes: int

else:
    agent = sys.modules["agent"]

SKILL = "/skill"
CHANNEL = 3
"""Descriptor of the tool channel in a program that may call tools."""
RELAY = "/relay.py"
RELAY_PORT = 3128
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION = 0x20080522
"""Sources: prctl(2), capget(2)."""

init: int
"""Pidfd of the sandbox's process 1."""


def enter_sandbox(entry: EntryMessage, passed: list[int], instructions: bytes) -> None:
    """Enter a sandbox. `passed` are its process 1, a socket to process 1, the control socket, stdout and stderr.

    Through the socket, process 1 says that the sandbox is made, and notices the end of its agent, to end as well.
    """
    global init
    init, other, agent.control, out, error = passed
    os.dup2(out, 1)
    os.dup2(error, 2)
    keep_only(init, other, agent.control)
    agent.go_first()
    os.setsid()
    if not os.read(other, 1):
        os._exit(3)  # there is no sandbox: bubblewrap has printed the reason
    agent.check_call(agent.libc.setns(init, entry["namespaces"]), "the sandbox could not be entered")
    os.chdir(SKILL)
    # Not shared with other runs: they would see flags that are set on it.
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.update(entry["environment"])
    agent.set_dumpable(0)
    give_up_capabilities()
    agent.close_kernel(instructions)


def keep_only(*kept: int) -> None:
    """Close every descriptor except the standard streams and `kept`: the rest is the fork server's."""
    first = 3
    for descriptor in sorted(kept):
        if first < descriptor:
            agent.close_from(first, descriptor - 1)
        os.set_inheritable(descriptor, False)
        first = descriptor + 1
    agent.close_from(first)


class Capabilities(ctypes.Structure):
    """`struct __user_cap_header_struct`, followed by two `__user_cap_data_struct`."""

    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int), ("sets", ctypes.c_uint32 * 6))


def give_up_capabilities() -> None:
    """Drop for good the capabilities that entering a user namespace gives."""
    agent.empty_bounding_set()
    none = Capabilities(CAPABILITY_VERSION)
    dropped = agent.libc.capset(ctypes.byref(none), ctypes.byref(none, Capabilities.sets.offset))
    agent.check_call(dropped, "capabilities were not dropped")
    dropped = agent.libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    agent.check_call(dropped, "ambient capabilities were not dropped")


def receive_job() -> tuple[bytes, int | None]:
    """Return the encoded job and the descriptor of its standard input or tool channel."""
    peer = socket.socket(fileno=os.dup(agent.control))
    header, passed, _, _ = peer.recvmsg(8, socket.CMSG_SPACE(4))
    peer.close()
    if not header:
        os._exit(3)
    header += agent.receive_bytes(agent.control, 8 - len(header))
    stdin = int.from_bytes(passed[0][2][:4], sys.byteorder) if passed else None
    return agent.receive_bytes(agent.control, int.from_bytes(header, "big")), stdin


def report_ready(own: int) -> None:
    """Report that the agent is ready, with a pidfd of this process, by which the host can kill it."""
    peer = socket.socket(fileno=os.dup(agent.control))
    word = agent.make_frame(b"R", os.getpid().to_bytes(4, "big"))
    peer.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, own.to_bytes(4, sys.byteorder))])
    peer.close()
    os.close(own)


def become_script(job: SandboxJob, stdin: int | None) -> None:
    """Replace this process, the child, by Node or bash. Return for Python: its script runs in this process."""
    if stdin is not None:
        place = CHANNEL if job["channel"] else 0
        os.dup2(stdin, place)
        os.set_inheritable(place, True)  # it may have been there before
    agent.close_from(CHANNEL + job["channel"])
    agent.limit_this_process(job["rlimits"])
    if job["exec"]:
        agent.default_signals()
        os.execv(job["exec"][0], job["exec"])  # noqa: S606 - no shell may interpret the arguments
    signal.signal(signal.SIGINT, signal.default_int_handler)
    agent.set_dumpable(1)


def start_relay(job: SandboxJob) -> None:
    """Start the process that relays connections to the egress proxy, for a run with network access.

    It has the limits of the script. Like this process, the script cannot inspect its memory.
    """
    entry = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    entry.bind(("127.0.0.1", RELAY_PORT))
    entry.listen(64)
    if fork_session() == 0:
        keep_only(entry.fileno())
        agent.limit_this_process(job["rlimits"])
        names: dict[str, Callable[[int], None]] = {}
        with open(RELAY, "rb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
            exec(compile(file.read(), RELAY, "exec"), names)  # noqa: S102 - a part of the agent
        names["run_relay"](entry.detach())
        os._exit(1)
    entry.close()


def end_all() -> None:
    """Kill process 1, with which the kernel kills every process of the sandbox, and reap this process's children.

    Process 1 is dead only when all others are.
    """
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(init, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)
    gone = select.poll()
    gone.register(init, select.POLLIN)
    gone.poll()


def reap_script(child: int) -> bytes:
    """Wait for the script, then end all other processes. Return the payload of an X frame."""
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            break
    end_all()
    return agent.encode_end(status, usage)


def fork_script(job: SandboxJob) -> int:
    """Fork the process that becomes the script; return its process id, or 0 in itself."""
    if os.access(RELAY, os.R_OK):
        start_relay(job)
    return fork_session()


def fork_session() -> int:
    """Fork a process with its own session; return its process id, or 0 in itself."""
    child = os.fork()
    if child == 0:
        os.setsid()
    return child
