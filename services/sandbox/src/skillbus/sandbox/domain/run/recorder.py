"""Runs as callers know them: with an id, remembered, told while they go on, and ended when somebody wants that."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.sandbox.run_history import RunCancelled, RunRecord, RunSelector, RunState
from skillbus.contracts.sandbox.skill_runs import RunSkill
from skillbus.sandbox.domain.errors import SandboxError
from skillbus.sandbox.domain.run.files import RunFiles
from skillbus.sandbox.domain.run.history import History, ended_record, find_run
from skillbus.sandbox.domain.run.lines import RunLine, RunLines
from skillbus.sandbox.domain.run.runner import Order, Runner
from skillbus.sandbox.domain.run.skill_limits import told
from skillbus.sandbox.domain.run.spec import RunOutcome

_DETAIL_CHARACTERS: Final = 2000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that ended, and what is remembered of it."""

    record: RunRecord
    outcome: RunOutcome


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """Runs of skills, over what they need."""

    runner: Runner
    files: RunFiles
    history: History
    lines: RunLines
    input_bytes: int
    """What the files of a request may be together."""
    now: Callable[[], datetime]
    to_wire: Callable[[Exception], RequestError | None]
    """The error that the caller of a run gets."""

    async def run(self, request: RunSkill, at_most_s: float) -> RecordedRun:
        """Run an action to its end or to a limit; `at_most_s` is how long the caller waits, in seconds.

        Raises:
            SandboxError: It was not run, and why.
            RequestError: The skill or a file cannot be had, or no slot was free in time.
        """
        until = asyncio.get_running_loop().time() + at_most_s
        run_id = request.run_id or uuid4().hex
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(self.lines.open(run_id, request.project, told=request.stream))
            order = await self.runner.order(request, until)
            files = await self.files.fetch(request.files, self.input_bytes)
            record = self._record(run_id, request, order, at_most_s)
            await self.history.begin(record, chosen=request.run_id is not None)
            await line.begun()
            try:
                with structlog.contextvars.bound_contextvars(run_id=run_id, skill=order.skill.name):
                    control = replace(line.control, ends=stack)
                    ran = await self.runner.run(request, order, files, until, control)
            except (SandboxError, RequestError) as error:
                await self._not_run(record, line, error)
                raise
            ended = ended_record(record, ran.outcome, ran.waited_ms)
            ended = ended.model_copy(update={"detail": ended.detail[:_DETAIL_CHARACTERS]})
            await line.ended(ended.state)
            await self._remember(ended)
            return RecordedRun(ended, ran.outcome)

    async def cancel(self, wanted: RunSelector) -> RunCancelled:
        """End a run, wherever it goes on.

        Raises:
            RunUnknown: There is none of that id in the project.
        """
        ending = await self.lines.cancel(wanted.run_id, wanted.project)
        if not ending:
            await find_run(self.history, wanted, self.now())
        return RunCancelled(run_id=wanted.run_id, ending=ending)

    def _record(self, run_id: str, request: RunSkill, order: Order, at_most_s: float) -> RunRecord:
        now = self.now()
        return RunRecord(
            run_id=run_id,
            project=request.project,
            skill=order.skill.name,
            content_digest=order.skill.content_digest,
            action=order.entry.action,
            state=RunState.RUNNING,
            began_at=now,
            ends_by=now + timedelta(seconds=at_most_s),
            limits=told(order.limits),
        )

    async def _not_run(self, record: RunRecord, line: RunLine, error: Exception) -> None:
        refused = error if isinstance(error, RequestError) else self.to_wire(error)
        code = "" if refused is None else refused.code.value
        await line.ended(RunState.NOT_RUN)
        await self._remember(record.model_copy(update={"state": RunState.NOT_RUN, "detail": code}))

    async def _remember(self, record: RunRecord) -> None:
        try:
            await self.history.end(record)
        except RequestError as error:
            # What the run gave is worth more to its caller than an error about its record.
            log.error("run_not_remembered", run_id=record.run_id, code=error.code, error=error.message)  # noqa: TRY400
