"""The sandbox's handlers: decode, one call of the domain, encode."""

import asyncio
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import structlog

from skillbus.common.bus import headers
from skillbus.contracts.endpoint import Check
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox import RUN_SKILL, RunSkill, SandboxLimits, SkillRan
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.files import RunFiles
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.result import json_result
from skillbus.sandbox.domain.run import RunOutcome
from skillbus.sandbox.domain.running import Runner

_TO_REPLY_S: Final = 3.0
"""Kept back from the caller's time for unpacking and for storing what the run gave."""
_RESULT_BYTES: Final = 256 * 1024
"""A JSON result above this is in standard output only: it would not fit a message beside it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxHandlers:
    """Answers the sandbox's requests."""

    runner: Runner
    isolation: Isolation
    files: RunFiles
    limits: Limits
    slots: int

    async def run_skill(self, request: RunSkill) -> SkillRan:
        """Run an action of a skill."""
        files = await self.files.fetch(request.files, self.limits.input_bytes)
        at_most_s = max(headers.remaining_s(RUN_SKILL.timeout_s) - _TO_REPLY_S, 0.1)
        outcome = await self.runner.run(request, files, at_most_s)
        log.info("skill_run", skill=request.name, status=outcome.status, duration_ms=round(outcome.duration_ms, 1))
        return await self._reply(uuid4().hex, outcome)

    async def get_limits(self, _: Empty) -> SandboxLimits:
        """The limits, and how runs are isolated."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return self._limits(None, str(error), ())
        return self._limits(report.level, "; ".join(report.notes), tuple(report.runtimes))

    async def isolated(self) -> Check:
        """Whether anything can be run."""
        try:
            report = await self.isolation.probe()
        except SandboxUnavailable as error:
            return Check(name="isolation", ready=False, detail=str(error))
        return Check(name="isolation", ready=True, detail=report.level)

    async def _reply(self, run_id: str, outcome: RunOutcome) -> SkillRan:
        small = len(outcome.stdout) <= _RESULT_BYTES
        return SkillRan(
            run_id=run_id,
            status=outcome.status,
            exit_code=outcome.exit_code,
            stdout=await self.files.keep_output(run_id, "stdout", outcome.stdout),
            stderr=await self.files.keep_output(run_id, "stderr", outcome.stderr),
            result=await asyncio.to_thread(json_result, outcome.stdout) if small else None,
            artifacts=tuple([await self.files.keep_artifact(run_id, artifact) for artifact in outcome.artifacts]),
            duration_ms=outcome.duration_ms,
            truncated=outcome.truncated,
            isolation=outcome.level,
            detail=outcome.detail,
        )

    def _limits(self, isolation: str | None, reason: str, runtimes: tuple[str, ...]) -> SandboxLimits:
        limits = self.limits
        return SandboxLimits(
            isolation=isolation,
            reason=reason,
            runtimes=runtimes,
            wall_s=limits.wall_s,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            output_bytes=limits.output_bytes,
            artifacts=limits.artifacts,
            artifacts_bytes=limits.artifacts_bytes,
            work_bytes=limits.work_bytes,
            slots=self.slots,
        )
