"""Follows a run to its end: collects its output, enforces its limits and decides its status."""

import asyncio
import signal
import time
from collections.abc import Awaitable
from typing import Final, Protocol

from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.supervision.protocol import AgentReport, ByteReader, ScriptExit
from skillbus.sandbox.domain.isolation import ExceededLimit, Meter
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome

_CHUNK: Final = 64 * 1024
_SIGNALS: Final = {int(number): number.name for number in signal.Signals}


class FollowedProgram(Protocol):
    """A sandbox or container that runs a script."""

    @property
    def stdout(self) -> ByteReader: ...
    @property
    def stderr(self) -> ByteReader: ...

    def kill(self) -> None:
        """Kill every process of it. Safe to call again."""


class RunFollower:
    """One run, followed from now on: its output up to the limit, and the first reason why the host ended it."""

    def __init__(self, program: FollowedProgram, limits: Limits, meter: Meter, control: RunControl) -> None:
        """`meter` has been entered."""
        self._program = program
        self._limits = limits
        self._meter = meter
        self._control = control
        self._began = time.monotonic()
        self._ending: ExceededLimit | None = None
        self._printed: dict[OutputStream, list[bytes]] = {stream: [] for stream in OutputStream}
        self._left_bytes = limits.output_bytes
        self._is_cut = False

    def end_run(self, status: RunStatus, detail: str) -> None:
        """Kill the program for this reason. The first reason stands."""
        self._ending = self._ending or ExceededLimit(status, detail)
        self._program.kill()

    async def follow_run(self, work: Awaitable[None]) -> None:
        """Wait until `work` is done and both streams have ended. Kill the program when it passes a limit."""
        timeout = asyncio.get_running_loop().call_later(
            self._limits.wall_s, self.end_run, RunStatus.TIMEOUT, f"{self._limits.wall_s:g} s of time, the limit"
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._drain(self._program.stdout, OutputStream.STDOUT))
                group.create_task(self._drain(self._program.stderr, OutputStream.STDERR))
                watching = [group.create_task(one) for one in (self._watch_limits(), self._watch_cancel())]
                await work
                for task in watching:
                    task.cancel()
        finally:
            timeout.cancel()

    def make_outcome(self, report: AgentReport, level: IsolationLevel) -> RunOutcome:
        """Return the outcome, once the script and everything it started has ended."""
        ended, usage = report.exit, self._meter.get_usage()
        ending = self._ending or usage.excess
        status, detail = ending or _judge_exit(ended, self._limits)
        return RunOutcome(
            status=status,
            exit_code=ended.exit_code if ended is not None and ending is None else None,
            stdout=b"".join(self._printed[OutputStream.STDOUT]),
            stderr=b"".join(self._printed[OutputStream.STDERR]),
            artifacts=tuple(report.artifacts),
            duration_ms=1000 * (time.monotonic() - self._began),
            cpu_ms=ended.cpu_ms if ended is not None else 0.0,
            truncated=self._is_cut or bool(report.left_out),
            level=level,
            detail="; ".join(filter(None, (detail, *report.left_out))),
            peak_bytes=usage.peak_bytes,
        )

    async def _watch_limits(self) -> None:
        self.end_run(*await self._meter.watch_limits())

    async def _watch_cancel(self) -> None:
        await self._control.cancelled.wait()
        self.end_run(RunStatus.CANCELLED, "cancelled by the caller")

    async def _drain(self, reader: ByteReader, stream: OutputStream) -> None:
        """Read to the end, or to the output limit: bytes that a killed writer left in the pipe are not counted."""
        while chunk := await reader.read(_CHUNK):
            kept = chunk[: self._left_bytes]
            self._left_bytes -= len(kept)
            self._printed[stream].append(kept)
            if kept and self._control.hear is not None:
                self._control.hear(stream, kept)
            if len(kept) < len(chunk):
                self._is_cut = True
                self.end_run(RunStatus.OUTPUT, f"more output than {self._limits.output_bytes} bytes")
                return


def _judge_exit(ended: ScriptExit | None, limits: Limits) -> tuple[RunStatus, str]:
    """Return the status of a run that the host did not end."""
    if ended is None:
        return RunStatus.KILLED, "the sandbox ended without a report, from within or by the machine"
    spent = ended.cpu_ms >= 1000 * limits.cpu_s
    if ended.signal == signal.SIGXCPU or (ended.signal == signal.SIGKILL and spent):
        return RunStatus.CPU, f"{limits.cpu_s} s of CPU, the limit of a process"
    if ended.signal:
        return RunStatus.KILLED, f"ended by {_SIGNALS.get(ended.signal, f'signal {ended.signal}')}"
    return (RunStatus.OK if ended.exit_code == 0 else RunStatus.FAILED), ""
