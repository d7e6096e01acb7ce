"""Tool calls of a program: who answers them, and their limits."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Access of one program to tools, within limits."""

    ask: Callable[[bytes], Awaitable[bytes]]
    """Asks the agent that had the program started, as `ProgramCalls.ask`."""
    calls: int
    """Most requests of the program."""
    call_bytes: int
    """Most bytes of all requests together, and of all replies together."""


class ProgramCalls(Protocol):
    """Way to the agents that had programs started."""

    async def ask(self, line: str, body: bytes) -> bytes:
        """Send a request of a program to the agent at the other end of its line, and return the reply.

        Neither is parsed here.
        Raises RequestError if there is no reply.
        """
