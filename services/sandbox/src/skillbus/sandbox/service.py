"""The sandbox's handlers: decode, one call of the domain, encode."""

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
from skillbus.sandbox.domain.run.files import RunFiles
from skillbus.sandbox.domain.run.history import History, find_run, list_runs
from skillbus.sandbox.domain.run.recorder import RecordedRun, RecordedRuns
from skillbus.sandbox.domain.run.result import json_result
from skillbus.sandbox.domain.run.skill_limits import Bounds, told

_TO_REPLY_S: Final = 3.0
"""Kept back from the caller's time for unpacking and for storing what the run gave."""
_SHORT_BYTES: Final = 16 * 1024
"""Read where it stands: it takes less than the way to a thread and back."""
_RESULT_BYTES: Final = 256 * 1024
"""A JSON result above this is in standard output only: it would not fit a message beside it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxHandlers:
    """Answers the sandbox's requests."""

    runs: RecordedRuns
    isolation: Isolation
    files: RunFiles
    history: History
    bounds: Bounds
    now: Callable[[], datetime]

    async def run_skill(self, request: RunSkill) -> SkillRan:
        """Run an action of a skill."""
        at_most_s = max(headers.remaining_s(RUN_SKILL.timeout_s) - _TO_REPLY_S, 0.1)
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
        """End a run."""
        return await self.runs.cancel(request)

    async def list_runs(self, request: ListRuns) -> RunsListed:
        """A page of the history."""
        return await list_runs(self.history, request, self.now())

    async def get_run(self, request: RunSelector) -> RunRecord:
        """What is remembered of a run."""
        return await find_run(self.history, request, self.now())

    async def get_limits(self, _: Empty) -> SandboxLimits:
        """The limits, and how runs are isolated."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return self._limits(None, str(error), ())
        return self._limits(report.level, "; ".join(report.notes), tuple(report.runtimes))

    async def isolated(self) -> HealthCheck:
        """Whether anything can be run."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return HealthCheck(name="isolation", ready=False, detail=str(error))
        return HealthCheck(name="isolation", ready=True, detail=report.level)

    async def _reply(self, ran: RecordedRun) -> SkillRan:
        record, outcome = ran.record, ran.outcome
        run_id = record.run_id
        return SkillRan(
            run_id=run_id,
            status=outcome.status,
            exit_code=outcome.exit_code,
            stdout=await self.files.keep_output(run_id, "stdout", outcome.stdout),
            stderr=await self.files.keep_output(run_id, "stderr", outcome.stderr),
            result=await _result(outcome.stdout),
            artifacts=tuple([await self.files.keep_artifact(run_id, artifact) for artifact in outcome.artifacts]),
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
            **told(bounds.default).model_dump(),
            slots=bounds.slots,
            waiting=bounds.waiting,
            running_now=runner.running,
            waiting_now=runner.waiting,
            ceiling=told(bounds.ceiling),
        )


async def _result(stdout: bytes) -> JsonValue:
    """As JSON, if it is that and not too long for the reply."""
    if len(stdout) <= _SHORT_BYTES:
        return json_result(stdout)
    return await asyncio.to_thread(json_result, stdout) if len(stdout) <= _RESULT_BYTES else None
