"""One run from the agent's first word to the last of its processes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.conversation import Ended, ProtocolError, Told, listen, signal_name
from skillbus.sandbox.adapters.prepared import Prepared
from skillbus.sandbox.adapters.process import SandboxProcess
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.metering import Meter
from skillbus.sandbox.domain.run import RunControl, RunOutcome, RunSpec, Stream

_CHUNK = 64 * 1024
_SIGXCPU = 24
_SIGKILL = 9


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

    sandbox: SandboxProcess
    status: RunStatus | None = None
    detail: str = ""

    def end(self, status: RunStatus, detail: str) -> None:
        """Kill it for this reason."""
        if self.status is None:
            self.status, self.detail = status, detail
        self.sandbox.kill()


async def supervise(ready: Prepared, job: bytes, spec: RunSpec, control: RunControl) -> RunOutcome:
    """Hand the job over and see the run to its end. Whatever happens, nothing of the sandbox is left afterwards."""
    began = time.monotonic()
    sandbox, limits = ready.sandbox, spec.limits
    told, output, ending = Told(), Output(limits.output_bytes, control.hear), Ending(sandbox)
    try:
        ready.meter.limit(limits)
        timeout = asyncio.get_running_loop().call_later(
            limits.wall_s, ending.end, RunStatus.TIMEOUT, f"{limits.wall_s:g} s of time, the limit"
        )
        try:
            async with asyncio.TaskGroup() as group:
                for stream, reader in ((Stream.STDOUT, sandbox.stdout), (Stream.STDERR, sandbox.stderr)):
                    group.create_task(_drain(reader, stream, output, limits, ending))
                beside = [_watch(ready.meter, ending), _end_if(control.cancelled, ending)]
                following = [group.create_task(one) for one in beside]
                await _talk(sandbox, job, spec, told, ending)
                for task in following:
                    task.cancel()
        finally:
            timeout.cancel()
    finally:
        await ready.end()
    return _outcome(told, output, ending, limits, ready, began)


def _outcome(told: Told, output: Output, ending: Ending, limits: Limits, ready: Prepared, began: float) -> RunOutcome:
    usage = ready.meter.usage()
    if ending.status is None and usage.excess is not None:
        ending.status, ending.detail = usage.excess
    status, detail = _verdict(ending, told.ended, limits)
    return RunOutcome(
        status=status,
        exit_code=told.ended.exit_code if told.ended is not None and ending.status is None else None,
        stdout=output.of(Stream.STDOUT),
        stderr=output.of(Stream.STDERR),
        artifacts=tuple(told.artifacts),
        duration_ms=1000 * (time.monotonic() - began),
        cpu_ms=told.ended.cpu_ms if told.ended is not None else 0.0,
        truncated=output.cut or bool(told.left_out),
        level=ready.level,
        detail="; ".join(filter(None, (detail, *told.left_out))),
        peak_bytes=usage.peak_bytes,
    )


async def _talk(sandbox: SandboxProcess, job: bytes, spec: RunSpec, told: Told, ending: Ending) -> None:
    try:
        await sandbox.send(job, spec.stdin)
        await listen(sandbox.control, spec.limits, told)
    except ConnectionError:
        return  # the sandbox is gone: what it told before is what there is
    except ProtocolError as error:
        ending.end(RunStatus.KILLED, f"the sandbox broke its protocol: {error}")


async def _watch(meter: Meter, ending: Ending) -> None:
    ending.end(*await meter.watch())


async def _end_if(cancelled: asyncio.Event, ending: Ending) -> None:
    await cancelled.wait()
    ending.end(RunStatus.CANCELLED, "cancelled by whoever asked for it")


async def _drain(reader: asyncio.StreamReader, stream: Stream, output: Output, limits: Limits, ending: Ending) -> None:
    """Reading stops at the limit: what a killed writer still holds is not counted, and not kept."""
    while chunk := await reader.read(_CHUNK):
        if not output.take(stream, chunk):
            ending.end(RunStatus.OUTPUT, f"more output than {limits.output_bytes} bytes")
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
