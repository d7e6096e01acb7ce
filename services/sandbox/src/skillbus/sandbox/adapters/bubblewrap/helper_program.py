"""Helper programs of the service, which have the user of the runs and take messages through a channel.

Their programs are in `inside/`: `fork_server.py` and `launcher.py`.
"""

import asyncio
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from skillbus.sandbox.adapters.bubblewrap.descriptors import make_sealed_file
from skillbus.sandbox.adapters.inside import read_program

_ERRORS_MAX: Final = 4096
_RETRY_S: Final = 0.005
_END_S: Final = 2.0
"""Normal ends take milliseconds; a stopped process is killed after this time."""


class HelperProgram:
    """A running helper: its process, the channel to it, and its own output."""

    def __init__(
        self, program: str, command: Sequence[str], environment: Mapping[str, str], content: bytes | None = None
    ) -> None:
        """Start `program`, a file of `inside/`. `command` is the change of user, if any, and the interpreter.

        The program gets the descriptors of its channel and of a file with `content` as arguments.
        """
        with ExitStack() as theirs:
            self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            passed = [theirs.enter_context(other).fileno()]
            self._errors, writing = os.pipe()
            theirs.callback(os.close, writing)
            file = make_sealed_file(theirs, read_program(program).encode())
            if content is not None:
                passed.append(make_sealed_file(theirs, content))
            try:
                self._process = subprocess.Popen(
                    (*command, "-I", "-S", "-B", f"/proc/self/fd/{file}", *map(str, passed)),
                    stdin=subprocess.DEVNULL,
                    stdout=writing,
                    stderr=writing,
                    pass_fds=(file, *passed),
                    env=dict(environment),
                    cwd="/",
                    start_new_session=True,
                )
            except BaseException:
                self.channel.close()
                os.close(self._errors)
                raise
        self.channel.setblocking(False)

    @property
    def pid(self) -> int:
        """Process id, in the host's numbering."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return True if it accepts messages: it has not ended, and its channel was not closed."""
        return self.channel.fileno() >= 0 and not self.has_ended()

    def has_ended(self) -> bool:
        """Return True if the process has ended, or ends in this moment: it has closed its end of the channel."""
        return self._process.poll() is not None or self._has_hung_up()

    def _has_hung_up(self) -> bool:
        if self.channel.fileno() < 0:
            return False
        try:
            return self.channel.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionError:  # it left messages unread
            return True

    async def send(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Send a message with descriptors. Waits while some hundred messages are pending.

        Raises OSError if the helper has ended.
        """
        while True:
            try:
                socket.send_fds(self.channel, [message], descriptors)
            except BlockingIOError:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def read_errors(self) -> str:
        """Return the helper's own output, which is empty unless it failed."""
        os.set_blocking(self._errors, False)
        try:
            return os.read(self._errors, _ERRORS_MAX).decode(errors="replace").strip()
        except BlockingIOError:
            return ""

    def end(self) -> None:
        """Close the channel, and wait until the helper has ended."""
        self.channel.close()
        os.close(self._errors)
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
