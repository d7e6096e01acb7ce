"""One container as its engine's client: a process of the host whose standard streams are the container's."""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from skillbus.common.background import finish_within
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError
from skillbus.sandbox.adapters.waits import run_in_thread
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.metering import Excess, Usage
from skillbus.sandbox.domain.run.limits import Limits

_HEADER_BYTES: Final = 5
_CHUNK: Final = 64 * 1024
_SMALL: Final = 4096
_SAID_MAX: Final = 4000
_GONE_S: Final = 30.0
_EXCESSES: Final = frozenset({RunStatus.MEMORY, RunStatus.KILLED, RunStatus.INODES})

log = structlog.get_logger(__name__)


class ToldMeter:
    """`Meter` of what the agent sees from inside; the engine holds the container as a whole by itself."""

    def __init__(self) -> None:
        self._peak_bytes: int | None = None
        self._excess = asyncio.Event()
        self._found: Excess | None = None

    async def enter(self, roots: Sequence[int]) -> None:
        """See `Meter.enter`. The agent is in the container, and counts from its start."""

    def limit(self, limits: Limits) -> None:
        """See `Meter.limit`. The limits are part of the job."""

    async def watch(self) -> Excess:
        """See `Meter.watch`."""
        while self._found is None:
            await self._excess.wait()
        return self._found

    async def leave(self) -> None:
        """See `Meter.leave`."""

    def usage(self) -> Usage:
        """See `Meter.usage`."""
        return Usage(self._peak_bytes, self._found)

    def take(self, kind: bytes, payload: bytes) -> None:
        """Note a frame down. Raises ProtocolError when it is not as the agent writes it."""
        if kind == b"P" and len(payload) == 8:
            self._peak_bytes = max(self._peak_bytes or 0, int.from_bytes(payload, "big"))
            return
        status, _, words = payload.decode(errors="backslashreplace").partition("\0")
        if kind != b"W" or status not in _EXCESSES:
            raise ProtocolError(f"frame {kind!r} of {len(payload)} bytes")
        self._found = Excess(RunStatus(status), words[:300])
        self._excess.set()


@dataclass(frozen=True, slots=True)
class Client:
    """How one container is started and ended."""

    run: Sequence[str]
    remove: Sequence[str]
    environment: Mapping[str, str]


class EngineProcess:
    """A started client: `Program`, with the agent's account beside what the script prints."""

    def __init__(self, client: Client, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the client's streams must be pipes")
        self._client, self._process = client, process
        self._stdin, self._frames, self._words = process.stdin, process.stdout, process.stderr
        self._removals: list[subprocess.Popen[bytes]] = []
        self._said = b""
        self.stdout, self.stderr, self.control = (asyncio.StreamReader() for _ in range(3))
        self.meter = ToldMeter()

    @classmethod
    async def start(cls, client: Client) -> "EngineProcess":
        """Start the client.

        Raises:
            SandboxBroken: It cannot be started.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *client.run,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(client.environment),
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxBroken(f"{client.run[0]} cannot be started: {error}") from error
        return cls(client, process)

    async def hand(self, message: bytes) -> None:
        """To the agent: with its length. Raises ConnectionError when the container is gone."""
        self._stdin.write(len(message).to_bytes(8, "big") + message)
        await self._stdin.drain()

    async def wait_ready(self) -> None:
        """For the agent's first word.

        Raises:
            SandboxBroken: It is another, or the container ended.
        """
        try:
            header = await self._frames.readexactly(_HEADER_BYTES)
        except asyncio.IncompleteReadError:
            header = b""
        if header != b"R\0\0\0\0":
            self.kill()
            await self._listen_to_words()
            said = self._said.decode(errors="replace").strip()
            raise SandboxBroken(f"the container did not start: {said or 'its engine says nothing'}")

    async def relay(self, size_max: int) -> None:
        """Pass on what comes, by its kind, until the container's end or the agent's; then all streams end.

        Raises:
            ProtocolError: It is not as the agent writes it.
        """
        try:
            async with asyncio.TaskGroup() as group:
                words = group.create_task(self._listen_to_words())
                while await self._relay_frame(size_max):
                    continue
                words.cancel()
        except* ProtocolError as errors:
            raise ProtocolError(str(errors.exceptions[0])) from None
        finally:
            for stream in (self.stdout, self.stderr, self.control):
                stream.feed_eof()

    async def _relay_frame(self, size_max: int) -> bool:
        """One frame; False at the end. Who reads what was passed on has its turn before, so that nothing piles up."""
        await asyncio.sleep(0)
        try:
            header = await self._frames.readexactly(_HEADER_BYTES)
            kind, size = header[:1], int.from_bytes(header[1:], "big")
            small = kind in b"OSPW"
            if size > (_CHUNK if small else size_max + _SMALL):
                raise ProtocolError(f"a frame of {size} bytes")
            if small:
                self._take(kind, await self._frames.readexactly(size))
                return True
            self.control.feed_data(header)
            while size:
                chunk = await self._frames.readexactly(min(size, _CHUNK))
                size -= len(chunk)
                self.control.feed_data(chunk)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return kind != b"E"

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == b"O":
            self.stdout.feed_data(payload)
        elif kind == b"S":
            self.stderr.feed_data(payload)
        else:
            self.meter.take(kind, payload)

    async def _listen_to_words(self) -> None:
        """What the engine itself says, and nobody but an operator reads."""
        while chunk := await self._words.read(_SMALL):
            self._said = (self._said + chunk)[-_SAID_MAX:]

    def kill(self) -> None:
        """See `Program.kill`. The agent ends with its input, and the engine is told to end the container anyhow."""
        self._stdin.close()
        if not self._removals:
            self._removals.append(self._start_removal())

    async def end(self, *, by_itself: bool) -> None:
        """Until nothing of the container is left; `by_itself` if the agent has said its last word.

        Raises:
            SandboxBroken: The engine does not remove it.
        """
        self._stdin.close()
        if not by_itself:
            self.kill()
        gone = await finish_within(self._gone(), _GONE_S)
        if not gone:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if not gone or self._process.returncode != 0 or self._removals:
            # The first removal may have come before the container was there.
            self._removals.append(self._start_removal())
        await run_in_thread(partial(_finish, self._removals))

    async def _gone(self) -> None:
        async with asyncio.TaskGroup() as group:
            for stream in (self._frames, self._words):
                group.create_task(_drained(stream))
        await self._process.wait()

    def _start_removal(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._client.remove,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(self._client.environment),
            start_new_session=True,
        )


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        continue


def _finish(removals: list[subprocess.Popen[bytes]]) -> None:
    for removal in removals:
        try:
            removal.wait(timeout=_GONE_S)
        except subprocess.TimeoutExpired:
            removal.kill()
            removal.wait()
            raise SandboxBroken("the engine does not remove a container: look at it") from None
