"""Tool calls of one running program, made with the rights of the call that started it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import structlog
from pydantic import ValidationError
from pydantic_core import to_json

from skillbus.agent.domain.builtins.tool import OuterCall
from skillbus.agent.domain.errors import AgentError, ToolNotCallableError, ToolUnknownError
from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.agent.domain.programs.stubs import write_stub
from skillbus.agent.domain.tool_answer import describe_call
from skillbus.contracts.agent.tool_calls import CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import ToolState
from skillbus.contracts.sandbox.program_runs import (
    CALLS_AT_ONCE,
    FRAME_BYTES,
    RUN_CODE,
    ProgramCalled,
    ProgramError,
    ProgramReply,
    ProgramRequest,
)
from skillbus.contracts.validation import describe_problems

_END_S: Final = 5.0
"""Time for cancelled calls to end by themselves."""
_LEAST_S: Final = 0.1

log = structlog.get_logger(__name__)


AnnounceCall = Callable[[ProgramCalled], Awaitable[None]]
"""Tells those who listen that a call has ended."""


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of the tool calls of one program."""

    calls: int
    call_bytes: int
    """Most bytes of all requests together, and of all replies together."""


class ProgramSession:
    """Tool calls of one program. They end with it.

    The sandbox counts calls too; here they are counted by the agent, which does not trust the sandbox.
    """

    def __init__(
        self,
        outer: OuterCall,
        catalogue: AgentCatalogue,
        limits: ProgramLimits,
        to_wire: Callable[[Exception], RequestError | None],
        announce: AnnounceCall,
    ) -> None:
        self._outer = outer
        self._announce = announce
        self._ended_calls = 0
        self._catalogue = catalogue
        self._left_calls = limits.calls
        self._to_wire = to_wire
        self._until = time.monotonic() + outer.within_s
        self._running: set[asyncio.Task[object]] = set()
        self._ending = asyncio.Event()

    async def answer(self, body: bytes) -> bytes:
        """Carry out a request of the program and return the reply."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("requests of programs are answered in tasks")
        try:
            self._admit()
            self._running.add(task)
            result = await self._carry_out(ProgramRequest.model_validate_json(body))
            encoded = b'{"result":%b}' % result
        except ValidationError as error:
            said = f"not a request of a program: {describe_problems(error, limit=1)}"
            encoded = _encode_error(RequestError(ErrorCode.INVALID_REQUEST, said))
        except (AgentError, RequestError) as error:
            encoded = _encode_error(self._translate(error))
        except Exception:
            # The reply boundary: a program that gets no reply would wait until its time is over.
            log.exception("program_request_failed", program=self._outer.run_id)
            encoded = _encode_error(RequestError(ErrorCode.INTERNAL, "The agent failed; see its log."))
        finally:
            self._running.discard(task)
        if len(encoded) > FRAME_BYTES:
            said = f"The result has {len(encoded)} bytes, over {FRAME_BYTES}."
            return _encode_error(RequestError(ErrorCode.PAYLOAD_TOO_LARGE, said))
        return encoded

    async def close(self) -> None:
        """Accept no more requests, and cancel the calls that are under way: their program has ended."""
        self._ending.set()
        self._left_calls = 0
        if self._running:
            _, left = await asyncio.wait(self._running, timeout=_END_S)
            for task in left:
                task.cancel()

    def _translate(self, error: AgentError | RequestError) -> RequestError:
        known = error if isinstance(error, RequestError) else self._to_wire(error)
        return known or RequestError(ErrorCode.INTERNAL, "The tool call failed.")

    def _admit(self) -> None:
        """Count a request. Raises RequestError beyond a limit, and after the end of the program."""
        if self._ending.is_set():
            raise RequestError(ErrorCode.FORBIDDEN, "The program has ended.")
        if self._left_calls < 1:
            raise RequestError(ErrorCode.OVERLOADED, "The program has made all its tool calls.", retryable=False)
        if len(self._running) >= CALLS_AT_ONCE:
            raise RequestError(ErrorCode.OVERLOADED, f"A program may make {CALLS_AT_ONCE} tool calls at once.")
        self._left_calls -= 1

    async def _carry_out(self, request: ProgramRequest) -> bytes:
        """Return the result of a request as JSON."""
        if request.method == "tool_schema":
            return await self._describe_tool(request.id)
        return await self._call_tool(request)

    async def _call_tool(self, request: ProgramRequest) -> bytes:
        started, run_id = time.perf_counter(), uuid4().hex
        call = CallTool(
            project=self._outer.project,
            id=request.id,
            action=request.action,
            arguments=request.arguments,
            run_id=run_id,
        )
        try:
            self._check_allowed(call)
            within_s = max(self._until - time.monotonic(), _LEAST_S)
            answer = await self._outer.call_tool(call, run_id, within_s, self._ending)
        except (AgentError, RequestError) as error:
            called = ToolCalled(id=call.id, run_id=run_id, duration_ms=_ms_since(started))
            await self._report(call, called, self._translate(error))
            raise
        called = describe_call(call.id, run_id, answer, started)
        await self._report(call, called)
        return called.model_dump_json().encode()

    async def _report(self, call: CallTool, called: ToolCalled, error: RequestError | None = None) -> None:
        """Log the end of a call, tell the turn of it, and announce it if the program was called with `stream`."""
        self._ended_calls += 1
        code = None if error is None else error.code.value
        if self._outer.tell_call is not None:
            self._outer.tell_call(call, called, error)
        fact = ProgramCalled(
            run_id=self._outer.run_id,
            number=self._ended_calls,
            id=called.id,
            call_id=called.run_id,
            code=code,
            is_error=called.is_error,
            duration_ms=called.duration_ms,
        )
        log.info(
            "program_called_tool",
            program=fact.run_id,
            tool=fact.id,
            code=code,
            is_error=fact.is_error,
            duration_ms=round(fact.duration_ms, 1),
        )
        if self._outer.stream:
            await self._announce(fact)

    @staticmethod
    def _check_allowed(call: CallTool) -> None:
        """Refuse a call that no program may make: the one place for it. `ToolCaller` refuses what nobody may call.

        Raises ToolNotCallableError.
        """
        if call.id == RUN_CODE:
            raise ToolNotCallableError("a program cannot start another program: call the tools from this one")

    async def _describe_tool(self, tool_id: str) -> bytes:
        known = await self._catalogue.get_tool(self._outer.project, tool_id)
        if known is None:
            raise ToolUnknownError(f"the catalogue has no tool {tool_id[:100]!r}")
        if known.state is not ToolState.ACTIVE:
            raise ToolNotCallableError(f"{tool_id[:100]} is {known.state.value}")
        tool = known.tool
        described = tool.model_dump(mode="json", include={"id", "name", "description", "tool_type", "parameters"})
        return to_json({**described, "stub": write_stub(tool)})


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _encode_error(error: RequestError) -> bytes:
    reply = ProgramReply(error=ProgramError(code=error.code.value, message=error.message[:2000]))
    return reply.model_dump_json().encode()
