"""Stdio transport: a server as a child process in its own process group, which ends with the session.

The SDK's transport buffers output without a line break without limit, and leaves the children of an ended server.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from skillbus.agent.adapters.mcp.http import MESSAGE_BYTES, OnFault, Streams
from skillbus.agent.domain.errors import LAST_WORDS_SEPARATOR, ServerFailedError
from skillbus.common.background import bind_to_parent

PASSED_VARIABLES: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Environment variables that a server inherits: those that programs need to find their files."""
LAST_LINES: Final = 6
LAST_WORDS_BYTES: Final = 8 * 1024
_LINE_CHARACTERS: Final = 150
_CHUNK: Final = 64 * 1024
_GRACE_S: Final = 1.0
_LOOK_S: Final = 0.01
_END_S: Final = 5.0
"""Time to end after SIGTERM. A killed `npx` or `uvx` leaves a broken cache."""


class LastWords:
    """The end of the standard error output of a process."""

    def __init__(self) -> None:
        self._tail = b""

    async def read_stream(self, stream: asyncio.StreamReader) -> None:
        """Read to the end, and keep the last `LAST_WORDS_BYTES`."""
        while chunk := await stream.read(_CHUNK):
            self._tail = (self._tail + chunk)[-LAST_WORDS_BYTES:]

    def format_lines(self) -> str:
        """Return the last lines that say something, on one line.

        Left out are indented lines, which are frames of stacks and excerpts of code, repeated lines, and lines that are
        the beginning of another, such as the bare prefix of a log.
        """
        lines = [line.rstrip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        said = dict.fromkeys([line for line in lines if not line[0].isspace()] or lines)
        begun = {line for line, following in pairwise(sorted(said)) if following.startswith(line)}
        last = [line.strip()[:_LINE_CHARACTERS] for line in said if line not in begun][-LAST_LINES:]
        return LAST_WORDS_SEPARATOR.join(last)


@asynccontextmanager
async def open_stdio_streams(
    command: Sequence[str], environment: Mapping[str, str], on_fault: OnFault, words: LastWords
) -> AsyncGenerator[Streams]:
    """Start a server and open its message streams. Raises ServerFailedError or OSError if it cannot be started."""
    process = await _start(command, environment)
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
            await _await_shielded(asyncio.create_task(_end(process, tasks)))


async def _start(command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start the process. If the caller is cancelled while it starts, the process is killed as soon as it exists."""
    starting = asyncio.create_task(_spawn(command, environment))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_unwanted)
        raise


def _kill_unwanted(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    _signal(process.pid, signal.SIGKILL)
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - as at the end of a session


async def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    inherited = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    environment = {**inherited, **environment}
    try:
        return await asyncio.create_subprocess_exec(
            # A killed agent cannot close its sessions.
            *bind_to_parent(command, environment, signal.SIGKILL),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
            limit=MESSAGE_BYTES,
        )
    except FileNotFoundError:
        raise ServerFailedError(
            f"there is no command {command[0][:300]}: name one that is on the agent's PATH"
        ) from None


async def _receive(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    on_fault: OnFault,
    words: LastWords,
) -> None:
    """Pass on the messages, one for each line, until the process ends. Other lines are skipped."""
    stdout, stderr = process.stdout, process.stderr
    assert stdout is not None  # noqa: S101 - asked for above
    assert stderr is not None  # noqa: S101 - as above
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(words.read_stream(stderr))
        try:
            await _pass_messages(stdout, incoming)
        except ServerFailedError as error:
            on_fault(error)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the session is over
        finally:
            await asyncio.wait({reading}, timeout=_GRACE_S)
            reading.cancel()
    last = words.format_lines()
    on_fault(ServerFailedError(f"its process ended{f'; its last output: {last}' if last else ''}"))


async def _pass_messages(
    stdout: asyncio.StreamReader, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
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
            continue  # banners and log lines; if an answer is lost this way, its request times out
        await incoming.send(SessionMessage(message))


async def _send(process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None  # noqa: S101 - asked for above
    with suppress(OSError, anyio.ClosedResourceError):  # it closed its input; its output shows that it ended
        async for sent in outgoing:
            process.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n")
            await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Close its input; then send SIGTERM; then kill it and all processes that it started."""
    await asyncio.wait(tasks)
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_exited(process, _GRACE_S):
        _signal(process.pid, signal.SIGTERM)
        await _has_exited(process, _END_S)
    _signal(process.pid, signal.SIGKILL)
    await _has_exited(process, _GRACE_S)
    # Unread output keeps the pipes open, and so does a child that left the process group.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio offers no other way


async def _has_exited(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Return True once the process has exited. `wait` would also wait for the end of output that nobody reads."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while process.returncode is None:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(_LOOK_S)
    return process.returncode is not None


async def _await_shielded(ending: asyncio.Task[None]) -> None:
    """Wait for the task also through cancellations: a process must not outlive its session."""
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
