"""Runs programs of the tool `run_code`."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from skillbus.agent.domain.builtins.run_code import RunCodeArguments
from skillbus.agent.domain.builtins.tool import OuterCall
from skillbus.agent.domain.errors import ArgumentsInvalidError
from skillbus.agent.domain.ports import AgentCatalogue, CallFiles
from skillbus.agent.domain.programs.session import AnnounceCall, ProgramLimits, ProgramSession
from skillbus.agent.domain.tool_answer import TEXT_BYTES, ToolAnswer, make_program_answer
from skillbus.contracts.errors import RequestError
from skillbus.contracts.sandbox.program_runs import ProgramLanguage, RunProgram
from skillbus.contracts.sandbox.skill_runs import SkillRan


class ProgramRuns(Protocol):
    """The sandbox, for programs."""

    async def run(self, request: RunProgram, within_s: float, cancelled: asyncio.Event) -> SkillRan:
        """Run a program. When `cancelled` is set, end the run and return its output so far. Raises RequestError."""


class ProgramLines(Protocol):
    """Lines on which the sandbox passes on the requests of programs."""

    def listen(
        self, line: str, answer: Callable[[bytes], Coroutine[Any, Any, bytes]], /
    ) -> AbstractAsyncContextManager[None]:
        """Answer the requests of one program while the context is open, in the context of the caller."""


@dataclass(frozen=True, slots=True)
class ProgramRunner:
    """Runs programs in the sandbox and makes their tool calls."""

    runs: ProgramRuns
    lines: ProgramLines
    files: CallFiles
    catalogue: AgentCatalogue
    limits: ProgramLimits
    to_wire: Callable[[Exception], RequestError | None]
    announce: AnnounceCall

    async def run(self, outer: OuterCall, arguments: RunCodeArguments) -> ToolAnswer:
        """Run a program to its end or to a limit.

        Raises:
            ArgumentsInvalidError: The code has characters that no file can hold.
            RequestError: The sandbox refused the program or is away.
        """
        if "\0" in arguments.code or not _is_encodable(arguments.code):
            raise ArgumentsInvalidError("the code has a character that UTF-8 text cannot have", "$.code")
        # Not the id of the run: its caller may have chosen that, and others may know it.
        line = uuid4().hex
        request = RunProgram(
            project=outer.project,
            language=ProgramLanguage(arguments.language),
            code=arguments.code,
            timeout_s=_min_s(arguments.timeout_s, outer.timeout_s),
            run_id=outer.run_id,
            line=line,
            calls=self.limits.calls,
            call_bytes=self.limits.call_bytes,
            stream=outer.stream,
        )
        session = ProgramSession(outer, self.catalogue, self.limits, self.to_wire, self.announce)
        async with self.lines.listen(line, session.answer):
            try:
                ran = await self.runs.run(request, outer.within_s, outer.cancelled)
            finally:
                await session.close()
        stdout = await self.files.read_start(ran.stdout, TEXT_BYTES)
        stderr = await self.files.read_start(ran.stderr, TEXT_BYTES)
        return make_program_answer(ran, stdout, stderr)


def _min_s(*given: float | None) -> float | None:
    return min((value for value in given if value is not None), default=None)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
