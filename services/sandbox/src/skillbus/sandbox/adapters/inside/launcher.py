"""Launcher: starts bubblewrap for each sandbox. Never imported by the service.

    launcher.py <channel>

It has the user of the runs, so that no start has to change the user, and it waits until bubblewrap has replaced its
copy, so that the service does not. `channel` is a socket that brings one message for each sandbox, with the descriptors
of bubblewrap and a socket for the answer: process id and pidfd. No answer comes if bubblewrap did not start.

SIGCHLD is ignored, so the kernel reaps bubblewrap. When the channel ends, this program ends, and with it every sandbox:
bubblewrap dies with its parent.

Runs on the sandbox's own Python (3.9 or newer).
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class LaunchMessage(TypedDict):
        """A program to start."""

        command: list[str]
        environment: dict[str, str]
        numbers: list[int]
        """Numbers that the passed descriptors get in the program. The third is its standard error."""


PASSED_MAX = 64
MESSAGE_MAX = 1 << 16
RESET = (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that this program or its interpreter handles or ignores, which the started program would inherit."""


def receive_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Return a message and its descriptors, which nothing inherits; an empty message at the end."""
    room = socket.CMSG_SPACE(4 * PASSED_MAX)
    try:
        message, ancillary, _, _ = channel.recvmsg(MESSAGE_MAX, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return b"", []
    return message, [number for _, _, data in ancillary for number in memoryview(data).cast("i")]


def is_awaited(answer: socket.socket) -> bool:
    """Return False if the service has given the start up. Bubblewrap would end then, and could leave its child."""
    try:
        return answer.recv(1, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True


def launch_program(message: LaunchMessage, given: list[int], answer: socket.socket) -> None:
    """Start a program with the given descriptors, and send its process id and pidfd."""
    command = message["command"]
    places = [(os.POSIX_SPAWN_DUP2, given[at], number) for at, number in enumerate(message["numbers"])]
    try:
        pid = os.posix_spawn(
            command[0],
            command,
            message["environment"],
            file_actions=places,
            setsid=True,
            setsigdef=RESET,
        )
    except OSError as error:
        with suppress(OSError):  # the service no longer reads
            os.write(given[2], f"{command[0]}: {error.strerror}".encode())
        return
    with suppress(OSError):  # it has ended, and has printed the reason; or the service no longer waits
        pidfd = os.pidfd_open(pid)
        passed = pidfd.to_bytes(4, sys.byteorder)
        try:
            answer.sendmsg([pid.to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        finally:
            os.close(pidfd)


def main() -> None:
    """Start programs until the channel ends."""
    os.close(int(sys.argv[0].rpartition("/")[2]))  # this program's own file
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    while True:
        message, passed = receive_message(channel)
        if not message:
            return
        with socket.socket(fileno=passed.pop()) as answer:
            if is_awaited(answer):
                launch_program(marshal.loads(message), passed, answer)  # noqa: S302 - from the service
        for descriptor in passed:
            os.close(descriptor)


if __name__ == "__main__":
    main()
