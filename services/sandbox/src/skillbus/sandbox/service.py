"""Handlers of the sandbox: decode, one domain call, encode."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from pydantic import JsonValue

from skillbus.common.bus import headers
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox.program_runs import RUN_PROGRAM, RunProgram
from skillbus.contracts.sandbox.run_history import ListRuns, RunCancelled, RunRecord, RunSelector, RunsListed
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, SandboxLimits, SkillRan
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.run.history import RunHistory, find_run, list_runs
from skillbus.sandbox.domain.run.limits import RunBounds, describe_limits
from skillbus.sandbox.domain.run.program import make_run
from skillbus.sandbox.domain.run.recorder import RecordedRun, RunFiles, RunRecorder
from skillbus.sandbox.domain.run.result import parse_result
from skillbus.sandbox.domain.run.tool_calls import ProgramCalls, ToolAccess

_TO_REPLY_S: Final = 3.0
"""Part of the caller's time that is reserved for unpacking and for storing the result."""
_SHORT_BYTES: Final = 16 * 1024
"""Output up to this size is parsed on the event loop: switching to a thread would take longer."""
_RESULT_BYTES: Final = 256 * 1024
"""Largest JSON result in a reply; a larger one is in standard output only, to fit into the message."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxHandlers:
    """Handlers of all requests to the sandbox."""

    runs: RunRecorder
    programs: RunRecorder
    """Runs of programs, which have slots of their own."""
    program_calls: ProgramCalls
    isolation: Isolation
    files: RunFiles
    history: RunHistory
    bounds: RunBounds
    now: Callable[[], datetime]

    async def run_skill(self, request: RunSkill) -> SkillRan:
        ran = await self.runs.run(request, _left_s(RUN_SKILL.timeout_s), caller=_name_caller())
        outcome = ran.outcome
        log.info(
            "skill_run",
            skill=request.name,
            run_id=ran.record.run_id,
            status=outcome.status,
            duration_ms=round(outcome.duration_ms, 1),
        )
        return await self._reply(ran, ran.outcome.stdout)

    async def run_program(self, request: RunProgram) -> SkillRan:
        """Run a program that may call tools through the agent that asks."""
        tools = ToolAccess(partial(self.program_calls.ask, request.line), request.calls, request.call_bytes)
        left_s = _left_s(RUN_PROGRAM.timeout_s)
        ran = await self.programs.run(make_run(request), left_s, tools, caller=_name_caller())
        outcome = ran.outcome
        log.info(
            "program_run",
            language=request.language,
            run_id=request.run_id,
            status=outcome.status,
            duration_ms=round(outcome.duration_ms, 1),
        )
        return await self._reply(ran, outcome.answer or b"")

    async def cancel_run(self, request: RunSelector) -> RunCancelled:
        return await self.runs.cancel(request)

    async def list_runs(self, request: ListRuns) -> RunsListed:
        return await list_runs(self.history, request, self.now())

    async def get_run(self, request: RunSelector) -> RunRecord:
        return await find_run(self.history, request, self.now())

    async def get_limits(self, _: Empty) -> SandboxLimits:
        """Return the limits and the isolation level."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return self._limits(None, str(error), ())
        return self._limits(report.level, "; ".join(report.notes), tuple(report.runtimes))

    async def check_isolation(self) -> HealthCheck:
        """Check that runs can be isolated."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return HealthCheck(name="isolation", ready=False, detail=str(error))
        return HealthCheck(name="isolation", ready=True, detail=report.level)

    async def _reply(self, ran: RecordedRun, answer: bytes) -> SkillRan:
        """Return the reply, with the result that `answer` holds as JSON."""
        record, outcome = ran.record, ran.outcome
        run_id = record.run_id
        result: JsonValue = None
        if len(answer) <= _SHORT_BYTES:
            result = parse_result(answer)
        elif len(answer) <= _RESULT_BYTES:
            result = await asyncio.to_thread(parse_result, answer)
        return SkillRan(
            run_id=run_id,
            status=outcome.status,
            exit_code=outcome.exit_code,
            stdout=await self.files.store_output(run_id, "stdout", outcome.stdout),
            stderr=await self.files.store_output(run_id, "stderr", outcome.stderr),
            result=result,
            artifacts=tuple([await self.files.store_artifact(run_id, artifact) for artifact in outcome.artifacts]),
            duration_ms=outcome.duration_ms,
            truncated=outcome.truncated,
            isolation=outcome.level,
            detail=outcome.detail,
            limits=record.limits,
            used=record.used,
        )

    def _limits(self, isolation: str | None, reason: str, runtimes: tuple[str, ...]) -> SandboxLimits:
        runner, bounds = self.runs.runner, self.bounds
        return SandboxLimits(
            isolation=isolation,
            reason=reason,
            runtimes=runtimes,
            **describe_limits(bounds.default).model_dump(),
            slots=bounds.slots,
            waiting=bounds.waiting,
            running_now=runner.running,
            waiting_now=runner.waiting,
            ceiling=describe_limits(bounds.ceiling),
        )


def _name_caller() -> str:
    """Return whom the request belongs to, as the gateway or a caller on the bus says: slots are given in turn."""
    origin = headers.origin.get()
    return "" if origin is None else origin.actor or ""


def _left_s(timeout_s: float) -> float:
    return max(headers.caller_waits_s(timeout_s) - _TO_REPLY_S, 0.1)
