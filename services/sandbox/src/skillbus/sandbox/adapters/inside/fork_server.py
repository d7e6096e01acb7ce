"""An interpreter whose forks become the agents of runs: `fork_server.py <channel> <parts>`, never imported.

Started once, it has imported what most scripts ask for; so no run waits for the start of an interpreter, nor pays for
it. It runs nothing of a skill, knows no secret, and hears from nobody but the service: `channel` is a socket that
brings one message for each sandbox, with the descriptors that belong to it. `parts` is a file with the agent's source,
the system call filters, and how many forks are made before this program starts itself anew: forks of one interpreter
share its address layout and its hash seed.

It buries its forks by not waiting for them, and what they leave as well. When the channel ends it waits until they have
ended: they do, since the sandboxes end with the service.

For the sandbox's own Python (3.9 or newer).
"""

from __future__ import annotations

import sys

USUAL = set(sys.modules)
"""What a plain interpreter has."""

import ctypes  # noqa: E402 - see above
import gc  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
from contextlib import suppress  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypedDict

    class Parts(TypedDict):
        """What the service gives it."""

        sources: dict[str, str]
        """Of the agent, by the names of its modules, in the order of their need."""
        filters: tuple[bytes, bytes]
        """Of system calls: without a network, with one."""
        imports: list[str]
        """What scripts are most likely to import."""
        forks: int
        """From one start of this program to the next."""


PASSED = 5
MESSAGE_MAX = 1 << 16
AGAIN = "again"
"""A word of the command line: the service knows already that this program is ready."""
PR_SET_CHILD_SUBREAPER = 36
"""Source: prctl(2)."""


def load(sources: dict[str, str]) -> dict[str, ModuleType]:
    """The modules of the agent, which no script can import."""
    for name, source in sources.items():
        module = sys.modules[name] = type(sys)(name)
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)  # noqa: S102 - from the service
    return {name: sys.modules.pop(name) for name in sources}


def fork_for_each(channel: socket.socket, forks: int) -> tuple[bytes, list[int]]:
    """Returns in each fork, with its message and descriptors. This process never returns."""
    while True:
        if forks == 0:
            start_anew()
        message, passed = receive(channel)
        if not message:
            break
        if len(passed) == PASSED and fork() == 0:
            channel.close()
            return message, passed
        for descriptor in passed:
            os.close(descriptor)
        forks -= 1
    channel.close()
    with suppress(ChildProcessError):
        os.wait()  # for the last: there is nothing to be told of any
    os._exit(0)


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors; none at the end."""
    try:
        message, ancillary, _, _ = channel.recvmsg(MESSAGE_MAX, socket.CMSG_SPACE(4 * PASSED))
    except ConnectionError:
        return b"", []
    return message, [number for _, _, data in ancillary for number in memoryview(data).cast("i")]


def fork() -> int:
    """As `os.fork`; -1 when the machine has no room for a process, which who waits for it hears by its descriptors."""
    try:
        return os.fork()
    except OSError:
        return -1


def start_anew() -> None:
    """As another interpreter, and the same process: its forks and its channel stay its own."""
    argv = [sys.executable, "-I", "-S", "-B", *sys.argv[:3], AGAIN]
    os.execv(sys.executable, argv)  # noqa: S606 - no shell is wanted


def main() -> None:
    """Only the process of a Python script comes to the end of it."""
    gc.disable()  # nothing of this is garbage; the script's process enables it
    channel = socket.socket(fileno=int(sys.argv[1]))
    file = int(sys.argv[2])
    parts: Parts = marshal.loads(os.pread(file, os.fstat(file).st_size, 0))  # noqa: S302 - from the service
    agent = load(parts["sources"])
    for name in parts["imports"]:
        __import__(name)
    agent["agent_python"].be_ready()
    agent["agent_python"].rehearse()
    imported = set(sys.modules) - USUAL
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    gc.freeze()  # what is here already is not looked through in a script's process, nor copied for it
    if AGAIN not in sys.argv:
        channel.send(b"R")
    message, passed = fork_for_each(channel, parts["forks"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    entry = marshal.loads(message)  # noqa: S302 - from the service
    agent["agent_sandbox"].enter(entry, passed, parts["filters"][entry["network"]])
    job = agent["agent_sandbox"].serve(agent["agent_warm"].wait, entry["warm"])
    agent["agent_python"].run_python(job, imported)


if __name__ == "__main__":
    main()
