"""Handlers of the sandbox: decode, one domain call, encode."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from pydantic import JsonValue

from skillbus.common.bus import headers
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox.run_history import ListRuns, RunCancelled, RunRecord, RunSelector, RunsListed
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, SandboxLimits, SkillRan
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.run.history import RunHistory, find_run, list_runs
from skillbus.sandbox.domain.run.limits import RunBounds, describe_limits
from skillbus.sandbox.domain.run.recorder import RecordedRun, RunFiles, RunRecorder
from skillbus.sandbox.domain.run.result import parse_result

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
    isolation: Isolation
    files: RunFiles
    history: RunHistory
    bounds: RunBounds
    now: Callable[[], datetime]

    async def run_skill(self, request: RunSkill) -> SkillRan:
        at_most_s = max(headers.caller_waits_s(RUN_SKILL.timeout_s) - _TO_REPLY_S, 0.1)
        ran = await self.runs.run(request, at_most_s)
        outcome = ran.outcome
        log.info(
            "skill_run",
            skill=request.name,
            run_id=ran.record.run_id,
            status=outcome.status,
            duration_ms=round(outcome.duration_ms, 1),
        )
        return await self._reply(ran)

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

    async def _reply(self, ran: RecordedRun) -> SkillRan:
        record, outcome = ran.record, ran.outcome
        run_id = record.run_id
        result: JsonValue = None
        if len(outcome.stdout) <= _SHORT_BYTES:
            result = parse_result(outcome.stdout)
        elif len(outcome.stdout) <= _RESULT_BYTES:
            result = await asyncio.to_thread(parse_result, outcome.stdout)
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
