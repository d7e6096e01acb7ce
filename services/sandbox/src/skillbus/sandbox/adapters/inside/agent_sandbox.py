"""The agent of one run: a fork of the fork server that enters the run's sandbox, and whose child the script is.

It is in every namespace of the sandbox but the one of processes, in which only its children are: nothing in there can
see it, signal it or look into it. It has entered before anything of the skill is there, and has neither a capability
nor an open system call more than the script by then.

It takes the job, starts the script, and waits for its end; then it ends everything that is left by killing the
sandbox's process 1, collects artifacts and exits. A Python script runs in a fork of it, others in place of one.

Asked to be warm it makes the script's process before the job is there, or starts Node, which waits for the name of its
script: see `agent_warm.py`. The job comes with a descriptor for standard input, unless that is empty.

It writes the frames of `agent.py`, and before them one with a descriptor of its own process:

    R  ready to take a job: its number, four bytes
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypedDict

    from skillbus.sandbox.adapters.inside import agent

    class Entry(TypedDict):
        """What the host says of a sandbox that it has started."""

        user: int | None
        namespaces: int
        environment: dict[str, str]
        network: bool
        warm: list[str] | None

    class Job(TypedDict):
        """What the host sends when there is a run."""

        script: str
        argv: list[str]
        path: list[str]
        packages: list[str]
        exec: list[str]
        rlimits: dict[int, tuple[int, int]]
        artifacts: int
        artifacts_bytes: int

    class Waiting(Protocol):
        """A process that waits to become a script."""

        child: int
        """It; 0 in itself."""

        def receive(self) -> tuple[bytes, int | None]:
            """The job as the host wrote it, and a descriptor of its standard input that is to be closed."""

        def run(self, job: Job, stdin: int | None) -> int:
            """Let it become the script of a job: its process, or 0 in itself."""

else:
    agent = sys.modules["agent"]

SKILL = "/skill"
RELAY = "/relay.py"
RELAY_PORT = 3128
CAPABILITIES = 64
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
CAPABILITY_VERSION = 0x20080522
"""Source of all: prctl(2), capget(2)."""

init: int
"""A descriptor of the sandbox's process 1."""


def enter(entry: Entry, passed: list[int], instructions: bytes) -> None:
    """The sandbox that the descriptors belong to: process 1, a socket with it, the host, standard output and error.

    By the socket process 1 says that the sandbox is made, and hears when its agent has ended, to end with it.
    """
    global init
    init, other, agent.control, out, error = passed
    os.dup2(out, 1)
    os.dup2(error, 2)
    keep_only(init, other, agent.control)
    agent.go_first()
    os.setsid()
    if not os.read(other, 1):
        os._exit(3)  # there is no sandbox: bubblewrap has said why
    become(entry["user"])
    agent.check(agent.libc.setns(init, entry["namespaces"]), "the sandbox could not be entered")
    os.chdir(SKILL)
    # Of its own: what is done to the description behind a descriptor that others have as well, they find.
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.update(entry["environment"])
    agent.set_dumpable(0)
    give_up_capabilities()
    agent.close_kernel(instructions)


def keep_only(*kept: int) -> None:
    """Of what is open, beside the standard streams: what the fork server had is not this run's."""
    first = 3
    for descriptor in sorted(kept):
        if first < descriptor:
            agent.close_from(first, descriptor - 1)
        os.set_inheritable(descriptor, False)
        first = descriptor + 1
    agent.close_from(first)


def become(user: int | None) -> None:
    """The user of the run, to whom the sandbox belongs, when the service is root."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


class Capabilities(ctypes.Structure):
    """`struct __user_cap_header_struct` and two of `__user_cap_data_struct`, one behind the other."""

    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int), ("sets", ctypes.c_uint32 * 6))


def give_up_capabilities() -> None:
    """All that entering a user namespace gives, for good."""
    for capability in range(CAPABILITIES):
        agent.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that the kernel does not know it refuses
    none = Capabilities(CAPABILITY_VERSION)
    dropped = agent.libc.capset(ctypes.byref(none), ctypes.byref(none, Capabilities.sets.offset))
    agent.check(dropped, "capabilities were not dropped")
    dropped = agent.libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    agent.check(dropped, "ambient capabilities were not dropped")


def receive(size: int) -> bytes:
    """Exactly `size` bytes of the control socket; the host gone ends this process."""
    data = b""
    while len(data) < size:
        chunk = os.read(agent.control, min(size - len(data), 1 << 20))
        if not chunk:
            os._exit(3)
        data += chunk
    return data


def receive_job() -> tuple[bytes, int | None]:
    """The job as the host wrote it, and the descriptor of its standard input."""
    peer = socket.socket(fileno=os.dup(agent.control))
    header, passed, _, _ = peer.recvmsg(8, socket.CMSG_SPACE(4))
    peer.close()
    if not header:
        os._exit(3)
    header += receive(8 - len(header))
    stdin = int.from_bytes(passed[0][2][:4], sys.byteorder) if passed else None
    return receive(int.from_bytes(header, "big")), stdin


def say_ready(own: int) -> None:
    """With a descriptor of this process, by which the host ends it."""
    peer = socket.socket(fileno=os.dup(agent.control))
    word = agent.frame(b"R", os.getpid().to_bytes(4, "big"))
    peer.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, own.to_bytes(4, sys.byteorder))])
    peer.close()
    os.close(own)


def become_script(job: Job, stdin: int | None) -> None:
    """In the child: for Node and bash replace this process; for Python return, to go on at module level."""
    if stdin is not None:
        os.dup2(stdin, 0)
    agent.close_from(3)
    agent.limit_this_process(job["rlimits"])
    if job["exec"]:
        agent.default_signals()
        os.execv(job["exec"][0], job["exec"])  # noqa: S606 - a shell is what must not come between
    signal.signal(signal.SIGINT, signal.default_int_handler)
    agent.set_dumpable(1)


def start_relay(job: Job) -> None:
    """Where there is a way out: listen at its entry, and have another process pass on what comes.

    It has the limits of the script, and like this process none of its memory is open to it.
    """
    entry = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    entry.bind(("127.0.0.1", RELAY_PORT))
    entry.listen(64)
    if fork() == 0:
        keep_only(entry.fileno())
        agent.limit_this_process(job["rlimits"])
        names: dict[str, Callable[[int], None]] = {}
        with open(RELAY, "rb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
            exec(compile(file.read(), RELAY, "exec"), names)  # noqa: S102 - another part of this one
        names["run"](entry.detach())
        os._exit(1)
    entry.close()


def end_all() -> None:
    """Every process of the sandbox: with its process 1 the kernel ends all others. This buries those that it started.

    The kernel waits for that: process 1 is dead when all others are gone.
    """
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(init, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)
    gone = select.poll()
    gone.register(init, select.POLLIN)
    gone.poll()


def reap(child: int) -> bytes:
    """Wait for the child, then end all the rest. The payload of an X frame."""
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            break
    end_all()
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = -1 if number else os.WEXITSTATUS(status)
    cpu_ms = int(1000 * (usage.ru_utime + usage.ru_stime))
    return b"".join(value.to_bytes(4, "big", signed=True) for value in (code, number, cpu_ms))


def begin(job: Job) -> int:
    """The process that becomes the script; 0 in itself."""
    if os.access(RELAY, os.R_OK):
        start_relay(job)
    return fork()


def fork() -> int:
    """A process with a session of its own; 0 in itself."""
    child = os.fork()
    if child == 0:
        os.setsid()
    return child


def serve(wait: Callable[[list[str]], Waiting], warm: list[str] | None) -> Job:
    """The agent ends in here; only the process of a Python script returns, with the job."""
    own = os.pidfd_open(os.getpid())
    waiting = None if warm is None else wait(warm)
    if waiting is None or waiting.child:
        say_ready(own)
    written, stdin = waiting.receive() if waiting is not None else receive_job()
    job: Job = marshal.loads(written)  # noqa: S302 - from the host
    child = begin(job) if waiting is None else waiting.run(job, stdin)
    if child == 0:
        become_script(job, stdin)
        return job
    if stdin is not None:
        os.close(stdin)
    account = agent.Account()
    account.tell(b"X", reap(child))
    agent.Collector(job["artifacts"], job["artifacts_bytes"], account.tell).collect()
    account.tell(b"E")
    account.send()
    os._exit(0)
