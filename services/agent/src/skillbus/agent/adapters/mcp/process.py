"""A server as a child process, in a process group of its own that ends with the session.

The SDK's own transport keeps whatever is written without a line break, and leaves the children of a server that ended.
"""

import asyncio
import ctypes
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from skillbus.agent.adapters.mcp.http import OnFault, Streams
from skillbus.agent.adapters.mcp.limits import LAST_WORDS, LAST_WORDS_BYTES, MESSAGE_BYTES
from skillbus.agent.domain.errors import ServerFailedError
from skillbus.common.background import finish_within

HARMLESS: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Of our own environment: what a program needs to find its files, and no more."""
_CHUNK: Final = 64 * 1024
_GRACE_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1


class LastWords:
    """The end of what a process wrote to standard error."""

    def __init__(self) -> None:
        self._kept: deque[bytes] = deque()
        self._size = 0

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read to the end, and keep the last of it."""
        while chunk := await stream.read(_CHUNK):
            self._kept.append(chunk[-LAST_WORDS_BYTES:])
            self._size += len(self._kept[-1])
            while self._size - len(self._kept[0]) >= LAST_WORDS_BYTES:
                self._size -= len(self._kept.popleft())

    def told(self) -> str:
        """The last lines."""
        lines = b"".join(self._kept)[-LAST_WORDS_BYTES:].decode(errors="replace").strip().splitlines()
        return " / ".join(line.strip()[:200] for line in lines[-LAST_WORDS:])


@asynccontextmanager
async def process_streams(
    command: Sequence[str], environment: Mapping[str, str], on_fault: OnFault, words: LastWords
) -> AsyncGenerator[Streams]:
    """The messages of a server that is started for them. Raises ServerFailedError or OSError when it cannot be."""
    process = await _started(command, environment)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_receive(process, incoming, on_fault, words)),
        asyncio.create_task(_send(process, outgoing)),
    ]
    try:
        yield read, write
    finally:
        for stream in (incoming, read, write, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await _to_the_end(asyncio.create_task(_end(process, tasks)))


async def _started(command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Whoever is cancelled while it starts would never hear of the process, and leave it."""
    starting = asyncio.create_task(_spawned(command, environment))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_end_unwanted)
        raise


def _end_unwanted(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    _signal(process.pid, signal.SIGKILL)
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - as at the end of a session


async def _spawned(command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    harmless = {name: os.environ[name] for name in HARMLESS if name in os.environ}
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**harmless, **environment},
            start_new_session=True,
            preexec_fn=_die_with_parent,
            limit=MESSAGE_BYTES,
        )
    except FileNotFoundError:
        # Not every event loop says of which file.
        raise ServerFailedError(
            f"there is no command {command[0][:300]}: name one that is on the agent's PATH"
        ) from None


async def _receive(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    on_fault: OnFault,
    words: LastWords,
) -> None:
    """Pass on what it says, a message a line, until it ends; what is no message is passed over."""
    stdout, stderr = process.stdout, process.stderr
    assert stdout is not None  # noqa: S101 - asked for above
    assert stderr is not None  # noqa: S101 - as above
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(words.read(stderr))
        try:
            await _pass_on(stdout, incoming)
        except ServerFailedError as error:
            on_fault(error)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the session is over
        finally:
            await asyncio.wait({reading}, timeout=_GRACE_S)
            reading.cancel()
    said = words.told()
    on_fault(ServerFailedError(f"its process ended{f'; its last words: {said}' if said else ''}"))


async def _pass_on(stdout: asyncio.StreamReader, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    while True:
        try:
            line = await stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            raise ServerFailedError(f"it sends a message of more than {MESSAGE_BYTES} bytes") from None
        try:
            message = JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            continue  # banners and log lines; a request that is not answered for it ends at its time
        await incoming.send(SessionMessage(message))


async def _send(process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None  # noqa: S101 - asked for above
    with suppress(OSError, anyio.ClosedResourceError):  # it closed its input: that it ended is told by its output
        async for sent in outgoing:
            process.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n")
            await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Close its input; a moment later ask it to end; then end it, and whatever it started."""
    await asyncio.wait(tasks)
    if process.stdin is not None:
        process.stdin.close()
    for sent in (None, signal.SIGTERM):
        if sent is not None:
            _signal(process.pid, sent)
        if await finish_within(process.wait(), _GRACE_S):
            break
    _signal(process.pid, signal.SIGKILL)
    await finish_within(process.wait(), _GRACE_S)
    # What it wrote and nobody read keeps the pipes open, and so does a child that left its group.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio offers no other way


async def _to_the_end(ending: asyncio.Task[None]) -> None:
    """Wait for it, however often this is cancelled meanwhile: a process must not outlive its session."""
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait({ending})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    ending.result()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _die_with_parent() -> None:
    # An agent that is killed closes no session.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
