"""Tool calls of programs, sent to the agents that had the programs started."""

from typing import Final

from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.program_runs import PROGRAM_CALLS

_CALL_S: Final = 3700.0
"""Longer than any run: the run ends first, and with it the wait."""


class BusProgramCalls:
    """`ProgramCalls` on the line of each program. Who knows its id can call tools as the program."""

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client
        self._local_lines = bus.local_lines

    async def ask(self, line: str, body: bytes) -> bytes:
        subject = PROGRAM_CALLS.subject(line)
        if (answer_here := self._local_lines.get(subject)) is not None:
            return await answer_here(body)
        try:
            return (await self._client.request(subject, body, timeout=_CALL_S)).data
        except NoRespondersError:
            said = "No agent answers the tool calls of this program."
        except NatsError as error:
            said = f"The agent cannot be reached: {error!r}"
        raise RequestError(ErrorCode.UNAVAILABLE, said)
