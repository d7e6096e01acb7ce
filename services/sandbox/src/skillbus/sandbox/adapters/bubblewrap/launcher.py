"""The host's end of the launcher, which starts bubblewrap. Its program: `inside/launcher.py`."""

import marshal
import weakref
from collections.abc import Mapping, Sequence
from typing import Final

from skillbus.sandbox.adapters.bubblewrap.helper_program import HelperProgram
from skillbus.sandbox.adapters.supervision.protocol import MARSHAL_VERSION

_FIRST: Final = 100
"""Above every descriptor of the launcher itself."""


class InheritedNumbers:
    """Descriptors that a started program inherits, and their numbers in it."""

    def __init__(self, stdin: int, stdout: int, stderr: int) -> None:
        self.numbers = {0: stdin, 1: stdout, 2: stderr}
        """Descriptors of this process, by their number in the program."""

    def add(self, descriptor: int) -> int:
        """Let the program inherit `descriptor` as well; return its number in the program."""
        number = _FIRST + len(self.numbers)
        self.numbers[number] = descriptor
        return number


class Launcher:
    """A running launcher. Closed by `close`, or when the last reference to it goes."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it. `command` is the change of user, if any, and the interpreter. Raises OSError."""
        self._program = HelperProgram("launcher.py", command, {})
        self.close = weakref.finalize(self, self._program.end)
        """Ends the launcher, and with it every program that it has started and that dies with its parent."""

    @property
    def pid(self) -> int:
        """Process id, in the host's numbering."""
        return self._program.pid

    def is_running(self) -> bool:
        """Return True if it accepts requests."""
        return self._program.is_running()

    async def launch_program(
        self, command: Sequence[str], environment: Mapping[str, str], inherited: InheritedNumbers, answer: int
    ) -> None:
        """Request the start of a program. Its process id and pidfd come through the socket `answer`.

        Nothing comes if it did not start; its standard error then says why. Raises OSError if the launcher has ended.
        """
        order = {"command": list(command), "environment": dict(environment), "numbers": list(inherited.numbers)}
        await self._program.send(marshal.dumps(order, MARSHAL_VERSION), (*inherited.numbers.values(), answer))
