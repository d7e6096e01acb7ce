"""One run from the agent's first word to the last of its processes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from skillbus.contracts.sandbox import RunStatus
from skillbus.sandbox.adapters.conversation import Ended, ProtocolError, Told, listen, read_ready, signal_name
from skillbus.sandbox.adapters.process import SandboxProcess
from skillbus.sandbox.adapters.watchdog import watch
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.limits import Limits
from skillbus.sandbox.domain.run import Level, RunControl, RunOutcome, Stream

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


async def supervise(
    sandbox: SandboxProcess, job: bytes, limits: Limits, level: Level, start_s: float, control: RunControl
) -> RunOutcome:
    """Hand the job over and see the run to its end. Whatever happens, nothing of the sandbox is left afterwards.

    Raises:
        SandboxBroken: when the agent does not report in `start_s` seconds.
    """
    began = time.monotonic()
    told, output, ending = Told(), Output(limits.output_bytes, control.hear), Ending(sandbox)
    try:
        await sandbox.connect()
        init = await _attach(sandbox, start_s)
        await _converse(sandbox, init, job, limits, told, output, ending, control.cancelled)
    finally:
        await sandbox.end()
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
        level=level,
        detail="; ".join(filter(None, (detail, *told.left_out))),
    )


async def _attach(sandbox: SandboxProcess, start_s: float) -> int:
    try:
        async with asyncio.timeout(start_s):
            await read_ready(sandbox.control)
            return await sandbox.attach()
    except TimeoutError as error:
        raise SandboxBroken(
            f"the sandbox did not start in {start_s:g} s: the machine is overloaded or hangs"
        ) from error
    except (OSError, ValueError, asyncio.IncompleteReadError, ProtocolError) as error:
        sandbox.kill()
        async with asyncio.timeout(start_s):
            said = await sandbox.stderr.read(_CHUNK)
        words = said.decode(errors="replace").strip() or f"it ended without a word ({error!r})"
        raise SandboxBroken(f"the sandbox did not start: {words}") from error


async def _converse(
    sandbox: SandboxProcess,
    init: int,
    job: bytes,
    limits: Limits,
    told: Told,
    output: Output,
    ending: Ending,
    cancelled: asyncio.Event,
) -> None:
    timeout = asyncio.get_running_loop().call_later(
        limits.wall_s, ending.end, RunStatus.TIMEOUT, f"{limits.wall_s:g} s of time, the limit"
    )
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_drain(sandbox.stdout, Stream.STDOUT, output, limits, ending))
            group.create_task(_drain(sandbox.stderr, Stream.STDERR, output, limits, ending))
            watching = group.create_task(_watch(init, limits, ending))
            waiting = group.create_task(_end_if(cancelled, ending))
            await _talk(sandbox, job, limits, told, ending)
            watching.cancel()
            waiting.cancel()
    finally:
        timeout.cancel()


async def _talk(sandbox: SandboxProcess, job: bytes, limits: Limits, told: Told, ending: Ending) -> None:
    try:
        await sandbox.send(job)
        await listen(sandbox.control, limits, told)
    except ConnectionError:
        return  # the sandbox is gone: what it told before is what there is
    except ProtocolError as error:
        ending.end(RunStatus.KILLED, f"the sandbox broke its protocol: {error}")


async def _watch(init: int, limits: Limits, ending: Ending) -> None:
    ending.end(*await watch(init, limits))


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
