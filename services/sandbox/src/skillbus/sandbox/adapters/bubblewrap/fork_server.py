"""The host's end of the fork server, which forks the agents of runs. Its program: `inside/fork_server.py`."""

import asyncio
import marshal
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Self

from skillbus.sandbox.adapters.bubblewrap.helper_program import HelperProgram
from skillbus.sandbox.adapters.bubblewrap.profile import AgentEntry
from skillbus.sandbox.adapters.supervision.protocol import MARSHAL_VERSION
from skillbus.sandbox.domain.errors import SandboxUnavailable

IMPORTS: Final = ("json", "pathlib")
"""Modules that most scripts import. json brings re, enum, functools and collections."""
_READY: Final = b"R"


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """Parts of a fork server."""

    command: Sequence[str]
    """The change of user, if any, and the interpreter."""
    environment: Mapping[str, str]
    """Environment of every run."""
    sources: Mapping[str, str]
    """Source text of the agent's modules."""
    filters: tuple[bytes, bytes]
    """System call filters: without and with a network."""
    forks: int
    """Forks of one interpreter before a new one takes its place."""


class ForkServer:
    """A running fork server. Closed by `close`, or when the last reference to it goes."""

    def __init__(self, program: HelperProgram) -> None:
        self._program = program
        self._finalize = weakref.finalize(self, program.end)

    @classmethod
    async def open(cls, plan: ForkPlan, within_s: float) -> Self:
        """Start a fork server, and wait until it is ready. Raises SandboxUnavailable if it is not, or is too old."""
        interpreter = plan.command[-1]
        parts = {
            "sources": dict(plan.sources),
            "filters": plan.filters,
            "imports": list(IMPORTS),
            "forks": plan.forks,
        }
        content = marshal.dumps(parts, MARSHAL_VERSION)
        try:
            server = cls(HelperProgram("fork_server.py", plan.command, plan.environment, content))
        except OSError as error:
            raise SandboxUnavailable(f"{interpreter} does not work: {error}") from error
        try:
            await server._wait_until_ready(interpreter, within_s)
        except BaseException:
            server.close()
            raise
        return server

    async def _wait_until_ready(self, interpreter: str, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                word = await asyncio.get_running_loop().sock_recv(self._program.channel, len(_READY))
        except TimeoutError as error:
            raise SandboxUnavailable(f"{interpreter} did not start in {within_s:g} s") from error
        if word != _READY:
            raise SandboxUnavailable(
                f"{interpreter} does not work: it must be Python 3.9 or newer: {self.read_errors()}"
            )

    @property
    def pid(self) -> int:
        """Process id, in the host's numbering."""
        return self._program.pid

    def is_running(self) -> bool:
        """Return True if it accepts requests: it has not ended and was not given up."""
        return self._program.is_running()

    def has_ended(self) -> bool:
        """Return True if the process has ended, or ends in this moment."""
        return self._program.has_ended()

    def give_up(self) -> None:
        """Send no more requests. The server ends after those that it has, and after its forks."""
        self._program.channel.close()

    async def fork_agent(self, entry: AgentEntry, descriptors: Sequence[int]) -> None:
        """Request a fork that enters a sandbox. Waits while some hundred requests are pending.

        `descriptors` are the sandbox's process 1, the agent's socket to process 1, control socket, stdout and stderr.
        Raises OSError if the server does not accept the request.
        """
        await self._program.send(marshal.dumps(asdict(entry), MARSHAL_VERSION), descriptors)

    def close(self) -> None:
        """End the server. It waits for its forks, so no sandbox may be left. Safe to call again."""
        self._finalize()

    def read_errors(self) -> str:
        """Return the server's own output, which is empty unless it failed."""
        return self._program.read_errors()
