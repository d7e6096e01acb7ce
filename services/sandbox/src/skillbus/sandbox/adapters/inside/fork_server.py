"""Fork server: an interpreter that forks the agents of runs. Never imported by the service.

    fork_server.py <channel> <parts>

It starts once and imports the modules that most scripts need, so that no run pays for the start of an interpreter. It
runs no code of a skill, has no secret, and listens to the service alone: `channel` is a socket that brings one message
for each sandbox, with the sandbox's descriptors. `parts` is a file with the agent's source, the system call filters
and the number of forks before this program replaces its interpreter: forks share its address layout and hash seed.

SIGCHLD is ignored, so the kernel reaps forks and their orphans. When the channel ends, the program waits for its forks,
which end because the sandboxes end with the service.

Runs on the sandbox's own Python (3.9 or newer).
"""

from __future__ import annotations

import sys

USUAL = set(sys.modules)
"""Modules of a plain interpreter."""

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
        """Parts that the service provides."""

        sources: dict[str, str]
        """Source text of the agent's modules, by name, in the order of their dependencies."""
        filters: tuple[bytes, bytes]
        """System call filters: without and with a network."""
        imports: list[str]
        """Modules to import."""
        forks: int
        """Number of forks of one interpreter."""


PASSED = 5
MESSAGE_MAX = 1 << 16
AGAIN = "again"
"""Argument of a replaced interpreter: the service already knows that the server is ready."""
PR_SET_CHILD_SUBREAPER = 36
"""Source: prctl(2)."""


def load_agent(sources: dict[str, str]) -> dict[str, ModuleType]:
    """Load the modules of the agent, such that no script can import them."""
    for name, source in sources.items():
        module = sys.modules[name] = type(sys)(name)
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)  # noqa: S102 - from the service
    return {name: sys.modules.pop(name) for name in sources}


def fork_for_each(channel: socket.socket, forks: int) -> tuple[bytes, list[int]]:
    """Fork for each message. Returns in the forks, with their message and descriptors; never in this process."""
    while True:
        if forks == 0:
            replace_interpreter()
        message, passed = receive_message(channel)
        if not message:
            break
        if len(passed) == PASSED and try_fork() == 0:
            channel.close()
            return message, passed
        for descriptor in passed:
            os.close(descriptor)
        forks -= 1
    channel.close()
    with suppress(ChildProcessError):
        os.wait()  # returns when the last fork has ended; none has a status to collect
    os._exit(0)


def receive_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Return a message and its descriptors; an empty message at the end."""
    try:
        message, ancillary, _, _ = channel.recvmsg(MESSAGE_MAX, socket.CMSG_SPACE(4 * PASSED))
    except ConnectionError:
        return b"", []
    return message, [number for _, _, data in ancillary for number in memoryview(data).cast("i")]


def try_fork() -> int:
    """Fork; return -1 if the machine has no room for a process. The service notices, since the descriptors close."""
    try:
        return os.fork()
    except OSError:
        return -1


def replace_interpreter() -> None:
    """Execute a new interpreter in this process, which keeps its forks and its channel."""
    argv = [sys.executable, "-I", "-S", "-B", *sys.argv[:3], AGAIN]
    os.execv(sys.executable, argv)  # noqa: S606 - no shell may interpret the arguments


def main() -> None:
    """Run the server. Only the process of a Python script reaches the end of this function."""
    gc.disable()  # nothing here is garbage; the script's process enables it again
    channel = socket.socket(fileno=int(sys.argv[1]))
    file = int(sys.argv[2])
    parts: Parts = marshal.loads(os.pread(file, os.fstat(file).st_size, 0))  # noqa: S302 - from the service
    agent = load_agent(parts["sources"])
    for name in parts["imports"]:
        __import__(name)
    agent["agent_python"].add_builtins()
    agent["agent_python"].rehearse_script()
    imported = set(sys.modules) - USUAL
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    gc.freeze()  # scripts' garbage collections skip these objects, so their pages are not copied
    if AGAIN not in sys.argv:
        channel.send(b"R")
    message, passed = fork_for_each(channel, parts["forks"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    entry = marshal.loads(message)  # noqa: S302 - from the service
    agent["agent_sandbox"].enter_sandbox(entry, passed, parts["filters"][entry["network"]])
    job = agent["agent_run"].serve_run(entry["warm"])
    agent["agent_python"].run_python(job, imported)


if __name__ == "__main__":
    main()
