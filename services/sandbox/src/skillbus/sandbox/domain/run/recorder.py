"""Recorded runs: with an id, a history record, live output and cancellation; and the ports that they need."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import uuid4

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox import skill_runs as contract
from skillbus.contracts.sandbox.run_history import RunCancelled, RunRecord, RunSelector, RunState
from skillbus.contracts.sandbox.skill_runs import RunSkill
from skillbus.sandbox.domain.errors import SandboxError
from skillbus.sandbox.domain.run.history import RunHistory, build_ended_record, find_run
from skillbus.sandbox.domain.run.limits import describe_limits
from skillbus.sandbox.domain.run.runner import PlannedRun, SkillRunner
from skillbus.sandbox.domain.run.spec import CollectedArtifact, RunControl, RunOutcome
from skillbus.sandbox.domain.run.tool_calls import ToolAccess

log = structlog.get_logger(__name__)


class RunFiles(Protocol):
    """Input and output files of runs."""

    async def fetch_files(self, files: Mapping[str, Content], max_bytes: int) -> dict[str, bytes]:
        """Return the bytes of a request's files.

        Raises:
            RequestError: `not_found`, `payload_too_large` if they exceed `max_bytes` together, or `invalid_request` if
                a file does not match its digest.
        """

    async def store_output(self, run_id: str, name: str, data: bytes) -> Content:
        """Return output as a content, inline if it is small."""

    async def store_artifact(self, run_id: str, artifact: CollectedArtifact) -> contract.Artifact:
        """Store an artifact where callers can fetch it."""


class RunLine(Protocol):
    """Line between one run and its listeners."""

    @property
    def control(self) -> RunControl:
        """Handle that forwards the output, and cancels the run on request."""

    async def announce_start(self) -> None:
        """Inform listeners that the run was accepted."""

    async def announce_end(self, state: RunState) -> None:
        """Send listeners the remaining output and the final state."""


class RunLines(Protocol):
    """Lines of all runs."""

    def open(self, run_id: str, project: str, *, streamed: bool) -> AbstractAsyncContextManager[RunLine]:
        """Open the line of a run that starts here; with `streamed`, its output is sent to listeners.

        Raises RunKnown if a run with that id is running here.
        """

    async def cancel(self, run_id: str, project: str) -> bool:
        """Cancel a run of that project on any replica; return False if none runs it. Raises RequestError."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that has ended, and its history record."""

    record: RunRecord
    outcome: RunOutcome


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Runs skills and records each run."""

    runner: SkillRunner
    files: RunFiles
    history: RunHistory
    lines: RunLines
    input_bytes: int
    """Size limit of all files of a request together."""
    now: Callable[[], datetime]
    to_wire: Callable[[Exception], RequestError | None]
    """Conversion to the error that the caller of a run gets."""
    finish: Callable[[Coroutine[object, object, None]], Awaitable[None]]
    """Does the last work of a run, before the caller gets an answer."""

    async def run(
        self, request: RunSkill, at_most_s: float, tools: ToolAccess | None = None, *, caller: str = ""
    ) -> RecordedRun:
        """Run an action to its end or to a limit; the caller waits `at_most_s` seconds. The run may call `tools`.

        `caller` is whom it belongs to: those who wait for a slot get them in turn.

        Raises:
            SandboxError: The action was not run.
            RequestError: The skill or a file is not available, or no slot was free in time.
        """
        until = asyncio.get_running_loop().time() + at_most_s
        run_id = request.run_id or uuid4().hex
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(self.lines.open(run_id, request.project, streamed=request.stream))
            order = await self.runner.plan_run(request, until)
            fetch = partial(self.files.fetch_files, request.files, self.input_bytes)
            record = self._record(run_id, request, order, at_most_s)
            starting = asyncio.create_task(self.history.record_start(record))
            stack.callback(starting.cancel)
            if request.run_id is not None and not request.run_id_is_new:
                await starting
            await line.announce_start()
            try:
                with structlog.contextvars.bound_contextvars(run_id=run_id, skill=order.skill.name):
                    control = replace(line.control, ends=stack, tools=tools)
                    outcome = await self.runner.run(request, order, fetch, until, control, caller=caller)
            except (SandboxError, RequestError) as error:
                refused = error if isinstance(error, RequestError) else self.to_wire(error)
                code = "" if refused is None else refused.code.value
                await line.announce_end(RunState.NOT_RUN)
                not_run = record.model_copy(update={"state": RunState.NOT_RUN, "detail": code})
                await self._write_record(not_run, starting)
                raise
            ended = build_ended_record(record, outcome)
            await line.announce_end(ended.state)
            await self.finish(self._end_run(ended, starting, stack.pop_all()))
            return RecordedRun(ended, outcome)

    async def cancel(self, wanted: RunSelector) -> RunCancelled:
        """Cancel a run on whichever replica it runs. Raises RunUnknown if the project has no run with that id."""
        ending = await self.lines.cancel(wanted.run_id, wanted.project)
        if not ending:
            await find_run(self.history, wanted, self.now())
        return RunCancelled(run_id=wanted.run_id, ending=ending)

    def _record(self, run_id: str, request: RunSkill, order: PlannedRun, at_most_s: float) -> RunRecord:
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
            limits=describe_limits(order.limits),
        )

    async def _end_run(self, record: RunRecord, starting: Awaitable[None], ends: AsyncExitStack) -> None:
        """Record the end of a run while the last of its processes ends."""
        async with ends:
            await self._write_record(record, starting)

    async def _write_record(self, record: RunRecord, starting: Awaitable[None]) -> None:
        """Record the end of a run, once the record of its start is written. Raises RunKnown if its id was not new."""
        await _await_written(starting, record.run_id)
        await _await_written(self.history.record_end(record), record.run_id)


async def _await_written(writing: Awaitable[None], run_id: str) -> None:
    """Wait until a record is written. A failure is logged: the caller needs the result of the run more."""
    try:
        await writing
    except RequestError as error:
        log.error("run_record_not_written", run_id=run_id, code=error.code, error=error.message)  # noqa: TRY400
