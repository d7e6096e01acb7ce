"""One container as its runsc client: a process of the host with the container's standard streams."""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from skillbus.common.background import finish_within
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.host import run_in_thread
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.isolation import ExceededLimit, SandboxUsage
from skillbus.sandbox.domain.run.limits import Limits

_HEADER_BYTES: Final = 5
_CHUNK: Final = 64 * 1024
_SMALL: Final = 4096
_ERRORS_MAX: Final = 4000
_DETAIL_MAX: Final = 300
_END_S: Final = 30.0
_EXCESSES: Final = frozenset({RunStatus.MEMORY, RunStatus.KILLED, RunStatus.INODES})


class ReportedMeter:
    """`Meter` that relies on the agent's reports from inside the container."""

    def __init__(self) -> None:
        self._peak_bytes: int | None = None
        self._reported = asyncio.Event()
        self._excess: ExceededLimit | None = None

    async def enter(self, roots: Sequence[int]) -> None:
        """See `Meter.enter`. The agent counts from the container's start."""

    def limit(self, limits: Limits) -> None:
        """See `Meter.limit`. The limits are part of the job."""

    async def watch_limits(self) -> ExceededLimit:
        while self._excess is None:
            await self._reported.wait()
        return self._excess

    def get_usage(self) -> SandboxUsage:
        return SandboxUsage(self._peak_bytes, self._excess)

    async def leave(self) -> None:
        """See `Meter.leave`."""

    def add_frame(self, kind: bytes, payload: bytes) -> None:
        """Note a frame of the agent. Raises ProtocolError if an intact agent never sends it."""
        if kind == b"P" and len(payload) == 8:
            self._peak_bytes = max(self._peak_bytes or 0, int.from_bytes(payload, "big"))
            return
        status, _, detail = payload.decode(errors="backslashreplace").partition("\0")
        if kind != b"W" or status not in _EXCESSES:
            raise ProtocolError(f"frame {kind!r} of {len(payload)} bytes")
        self._excess = ExceededLimit(RunStatus(status), detail[:_DETAIL_MAX])
        self._reported.set()


@dataclass(frozen=True, slots=True)
class ContainerCommands:
    """Commands that run and remove one container."""

    run: Sequence[str]
    remove: Sequence[str]
    environment: Mapping[str, str]


class Container:
    """A started container: its output, the agent's report, and the means to end it."""

    def __init__(self, commands: ContainerCommands, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the client's streams must be pipes")
        self._commands, self._process = commands, process
        self._stdin, self._frames, self._errors = process.stdin, process.stdout, process.stderr
        self._removals: list[subprocess.Popen[bytes]] = []
        self._said = b""
        self.stdout, self.stderr, self.control = (asyncio.StreamReader() for _ in range(3))
        self.meter = ReportedMeter()

    @classmethod
    async def start(cls, commands: ContainerCommands) -> "Container":
        """Start the client. Raises SandboxBroken if it cannot be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                *commands.run,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(commands.environment),
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxBroken(f"{commands.run[0]} cannot be started: {error}") from error
        return cls(commands, process)

    async def send_message(self, message: bytes) -> None:
        """Send the agent a message with its length. Raises ConnectionError if the container has ended."""
        self._stdin.write(len(message).to_bytes(8, "big") + message)
        await self._stdin.drain()

    async def wait_ready(self) -> None:
        """Wait for the agent's first frame. Raises SandboxBroken if it is another frame, or the container ended."""
        try:
            header = await self._frames.readexactly(_HEADER_BYTES)
        except asyncio.IncompleteReadError:
            header = b""
        if header != b"R\0\0\0\0":
            self.kill()
            await self._read_errors()
            reason = self._said.decode(errors="replace").strip()
            raise SandboxBroken(f"the container did not start: {reason or 'runsc printed no error'}")

    async def relay_frames(self, size_max: int) -> None:
        """Pass frames on to the streams of their kind, until the agent's last frame or the container's end.

        Raises ProtocolError if a frame is malformed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                errors = group.create_task(self._read_errors())
                while await self._relay_frame(size_max):
                    continue
                errors.cancel()
        except* ProtocolError as raised:
            raise ProtocolError(str(raised.exceptions[0])) from None
        finally:
            for stream in (self.stdout, self.stderr, self.control):
                stream.feed_eof()

    async def _relay_frame(self, size_max: int) -> bool:
        """Pass one frame on; return False at the end. Readers of the streams run first, so that nothing piles up."""
        await asyncio.sleep(0)
        try:
            header = await self._frames.readexactly(_HEADER_BYTES)
            kind, size = header[:1], int.from_bytes(header[1:], "big")
            is_small = kind in b"OSPW"
            if size > (_CHUNK if is_small else size_max + _SMALL):
                raise ProtocolError(f"a frame of {size} bytes")
            if is_small:
                payload = await self._frames.readexactly(size)
                if kind in b"OS":
                    (self.stdout if kind == b"O" else self.stderr).feed_data(payload)
                else:
                    self.meter.add_frame(kind, payload)
                return True
            self.control.feed_data(header)
            while size:
                chunk = await self._frames.readexactly(min(size, _CHUNK))
                size -= len(chunk)
                self.control.feed_data(chunk)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return kind != b"E"

    async def _read_errors(self) -> None:
        """Read the messages of runsc itself, for the operator."""
        while chunk := await self._errors.read(_SMALL):
            self._said = (self._said + chunk)[-_ERRORS_MAX:]

    def kill(self) -> None:
        """End the agent by closing its input, and have runsc remove the container. Safe to call again."""
        self._stdin.close()
        if not self._removals:
            self._removals.append(self._start_removal())

    async def end(self, *, by_itself: bool) -> None:
        """Wait until nothing of the container is left. `by_itself` says that the agent has sent its last frame.

        Raises SandboxBroken if runsc does not remove it.
        """
        self._stdin.close()
        if not by_itself:
            self.kill()
        ended = await finish_within(self._wait_for_client(), _END_S)
        if not ended:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if not ended or self._process.returncode != 0 or self._removals:
            # The first removal may have come before the container was there.
            self._removals.append(self._start_removal())
        await run_in_thread(partial(_wait_for_removals, self._removals))

    async def _wait_for_client(self) -> None:
        async with asyncio.TaskGroup() as group:
            for stream in (self._frames, self._errors):
                group.create_task(_discard(stream))
        await self._process.wait()

    def _start_removal(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._commands.remove,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(self._commands.environment),
            start_new_session=True,
        )


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        continue


def _wait_for_removals(removals: list[subprocess.Popen[bytes]]) -> None:
    for removal in removals:
        try:
            removal.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            removal.kill()
            removal.wait()
            raise SandboxBroken("runsc does not remove a container: an operator must look at it") from None
