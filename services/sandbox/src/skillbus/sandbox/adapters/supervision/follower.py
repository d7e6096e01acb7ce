"""Follows a run to its end: collects its output, enforces its limits and decides its status."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.supervision.protocol import AgentReport, ByteReader, ScriptExit
from skillbus.sandbox.domain.isolation import Meter
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome

_CHUNK: Final = 64 * 1024


class FollowedProgram(Protocol):
    """A sandbox or container that runs a script."""

    @property
    def stdout(self) -> ByteReader: ...
    @property
    def stderr(self) -> ByteReader: ...

    def kill(self) -> None:
        """Kill every process of it. Safe to call again."""


@dataclass(slots=True)
class RunOutput:
    """Standard output and standard error of a run, up to their common limit."""

    left: int
    hear: Callable[[OutputStream, bytes], None] | None = None
    parts: dict[OutputStream, list[bytes]] = field(default_factory=lambda: {stream: [] for stream in OutputStream})
    cut: bool = False

    def add(self, stream: OutputStream, chunk: bytes) -> bool:
        """Keep as much of `chunk` as fits; return False if some of it did not."""
        kept = chunk[: self.left]
        self.left -= len(kept)
        self.parts[stream].append(kept)
        if self.hear is not None and kept:
            self.hear(stream, kept)
        self.cut = self.cut or len(kept) < len(chunk)
        return not self.cut

    def join_parts(self, stream: OutputStream) -> bytes:
        """Return everything kept of one stream."""
        return b"".join(self.parts[stream])


@dataclass(slots=True)
class RunEnding:
    """Reason why the host ended a run. The first reason stands."""

    program: FollowedProgram
    status: RunStatus | None = None
    detail: str = ""

    def end(self, status: RunStatus, detail: str) -> None:
        """Kill the program for this reason."""
        if self.status is None:
            self.status, self.detail = status, detail
        self.program.kill()


@dataclass(slots=True)
class RunFollower:
    """One run, followed from now on."""

    ending: RunEnding
    output: RunOutput
    limits: Limits
    meter: Meter
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def create(cls, program: FollowedProgram, limits: Limits, meter: Meter, control: RunControl) -> "RunFollower":
        """Create a follower of `program`, whose meter has been entered."""
        return cls(RunEnding(program), RunOutput(limits.output_bytes, control.hear), limits, meter)

    async def follow_run(self, cancelled: asyncio.Event, work: Awaitable[None]) -> None:
        """Wait until `work` is done and both streams have ended. Kill the program when it passes a limit."""
        timeout = asyncio.get_running_loop().call_later(
            self.limits.wall_s, self.ending.end, RunStatus.TIMEOUT, f"{self.limits.wall_s:g} s of time, the limit"
        )
        program = self.ending.program
        try:
            async with asyncio.TaskGroup() as group:
                for stream, reader in ((OutputStream.STDOUT, program.stdout), (OutputStream.STDERR, program.stderr)):
                    group.create_task(self._drain(reader, stream))
                watching = [group.create_task(one) for one in (self._watch_limits(), self._watch_cancel(cancelled))]
                await work
                for task in watching:
                    task.cancel()
        finally:
            timeout.cancel()

    def make_outcome(self, report: AgentReport, level: IsolationLevel) -> RunOutcome:
        """Return the outcome, once the script and everything it started has ended."""
        ending, ended, usage = self.ending, report.exit, self.meter.get_usage()
        if ending.status is None and usage.excess is not None:
            ending.status, ending.detail = usage.excess
        status, detail = _decide_status(ending, ended, self.limits)
        return RunOutcome(
            status=status,
            exit_code=ended.exit_code if ended is not None and ending.status is None else None,
            stdout=self.output.join_parts(OutputStream.STDOUT),
            stderr=self.output.join_parts(OutputStream.STDERR),
            artifacts=tuple(report.artifacts),
            duration_ms=1000 * (time.monotonic() - self.began),
            cpu_ms=ended.cpu_ms if ended is not None else 0.0,
            truncated=self.output.cut or bool(report.left_out),
            level=level,
            detail="; ".join(filter(None, (detail, *report.left_out))),
            peak_bytes=usage.peak_bytes,
        )

    async def _watch_limits(self) -> None:
        self.ending.end(*await self.meter.watch_limits())

    async def _watch_cancel(self, cancelled: asyncio.Event) -> None:
        await cancelled.wait()
        self.ending.end(RunStatus.CANCELLED, "cancelled by the caller")

    async def _drain(self, reader: ByteReader, stream: OutputStream) -> None:
        """Read to the end, or to the output limit: bytes that a killed writer left in the pipe are not counted."""
        while chunk := await reader.read(_CHUNK):
            if not self.output.add(stream, chunk):
                self.ending.end(RunStatus.OUTPUT, f"more output than {self.limits.output_bytes} bytes")
                return


def _decide_status(ending: RunEnding, ended: ScriptExit | None, limits: Limits) -> tuple[RunStatus, str]:
    if ending.status is not None:
        return ending.status, ending.detail
    if ended is None:
        return RunStatus.KILLED, "the sandbox ended without a report, from within or by the machine"
    spent = ended.cpu_ms >= 1000 * limits.cpu_s
    if ended.signal == signal.SIGXCPU or (ended.signal == signal.SIGKILL and spent):
        return RunStatus.CPU, f"{limits.cpu_s} s of CPU, the limit of a process"
    if ended.signal:
        return RunStatus.KILLED, f"ended by {_name_signal(ended.signal)}"
    return (RunStatus.OK, "") if ended.exit_code == 0 else (RunStatus.FAILED, "")


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
