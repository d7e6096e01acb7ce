"""What a run prints and how it ends, whatever runs it: a sandbox, or nothing but a process."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.supervision.protocol import Ended, Readable, Told, signal_name
from skillbus.sandbox.domain.metering import Meter
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import Level, RunControl, RunOutcome, Stream

_CHUNK = 64 * 1024
_SIGXCPU = 24
_SIGKILL = 9


class Program(Protocol):
    """What is followed."""

    @property
    def stdout(self) -> Readable: ...
    @property
    def stderr(self) -> Readable: ...

    def kill(self) -> None:
        """End every process of it, now. Safe to call again."""


@dataclass(slots=True)
class Output:
    """Standard output and error, read until their common limit."""

    left: int
    hear: Callable[[Stream, bytes], None] | None = None
    parts: dict[Stream, list[bytes]] = field(default_factory=lambda: {stream: [] for stream in Stream})
    cut: bool = False

    def take(self, stream: Stream, chunk: bytes) -> bool:
        """Keep what fits; False when something did not."""
        kept = chunk[: self.left]
        self.left -= len(kept)
        self.parts[stream].append(kept)
        if self.hear is not None and kept:
            self.hear(stream, kept)
        self.cut = self.cut or len(kept) < len(chunk)
        return not self.cut

    def of(self, stream: Stream) -> bytes:
        """Everything kept of one stream."""
        return b"".join(self.parts[stream])


@dataclass(slots=True)
class Ending:
    """Why the host ended a run: the first reason stands."""

    program: Program
    status: RunStatus | None = None
    detail: str = ""

    def end(self, status: RunStatus, detail: str) -> None:
        """Kill it for this reason."""
        if self.status is None:
            self.status, self.detail = status, detail
        self.program.kill()


@dataclass(slots=True)
class Following:
    """A run that begins now."""

    ending: Ending
    output: Output
    limits: Limits
    meter: Meter
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, program: Program, limits: Limits, meter: Meter, control: RunControl) -> "Following":
        """Of a program whose meter was entered."""
        return cls(Ending(program), Output(limits.output_bytes, control.hear), limits, meter)

    async def follow(self, cancelled: asyncio.Event, work: Awaitable[None]) -> None:
        """Until `work` is done and both streams have ended; a limit that is passed ends the program."""
        timeout = asyncio.get_running_loop().call_later(
            self.limits.wall_s, self.ending.end, RunStatus.TIMEOUT, f"{self.limits.wall_s:g} s of time, the limit"
        )
        program = self.ending.program
        try:
            async with asyncio.TaskGroup() as group:
                for stream, reader in ((Stream.STDOUT, program.stdout), (Stream.STDERR, program.stderr)):
                    group.create_task(self._drain(reader, stream))
                beside = [group.create_task(one) for one in (self._watch(), self._end_if(cancelled))]
                await work
                for task in beside:
                    task.cancel()
        finally:
            timeout.cancel()

    def outcome(self, told: Told, level: Level) -> RunOutcome:
        """When the script has ended, and all that it started."""
        ending, ended, usage = self.ending, told.ended, self.meter.usage()
        if ending.status is None and usage.excess is not None:
            ending.status, ending.detail = usage.excess
        status, detail = _verdict(ending, ended, self.limits)
        return RunOutcome(
            status=status,
            exit_code=ended.exit_code if ended is not None and ending.status is None else None,
            stdout=self.output.of(Stream.STDOUT),
            stderr=self.output.of(Stream.STDERR),
            artifacts=tuple(told.artifacts),
            duration_ms=1000 * (time.monotonic() - self.began),
            cpu_ms=ended.cpu_ms if ended is not None else 0.0,
            truncated=self.output.cut or bool(told.left_out),
            level=level,
            detail="; ".join(filter(None, (detail, *told.left_out))),
            peak_bytes=usage.peak_bytes,
        )

    async def _watch(self) -> None:
        self.ending.end(*await self.meter.watch())

    async def _end_if(self, cancelled: asyncio.Event) -> None:
        await cancelled.wait()
        self.ending.end(RunStatus.CANCELLED, "cancelled by whoever asked for it")

    async def _drain(self, reader: Readable, stream: Stream) -> None:
        """Reading stops at the limit: what a killed writer still holds is not counted, and not kept."""
        while chunk := await reader.read(_CHUNK):
            if not self.output.take(stream, chunk):
                self.ending.end(RunStatus.OUTPUT, f"more output than {self.limits.output_bytes} bytes")
                return


def _verdict(ending: Ending, ended: Ended | None, limits: Limits) -> tuple[RunStatus, str]:
    if ending.status is not None:
        return ending.status, ending.detail
    if ended is None:
        return RunStatus.KILLED, "the sandbox ended from within or by the machine, without a report"
    spent = ended.cpu_ms >= 1000 * limits.cpu_s
    if ended.signal == _SIGXCPU or (ended.signal == _SIGKILL and spent):
        return RunStatus.CPU, f"{limits.cpu_s} s of CPU, the limit of a process"
    if ended.signal:
        return RunStatus.KILLED, f"ended by {signal_name(ended.signal)}"
    return (RunStatus.OK, "") if ended.exit_code == 0 else (RunStatus.FAILED, "")
