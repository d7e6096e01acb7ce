"""The host's end of a program's tool channel: frames from the program to the agent, and replies back.

The channel is a socket pair. The program inherits one end as its standard input; the other end never leaves the host's
process. A frame, in both directions:

    four bytes of length, four bytes of number (big-endian), and as many bytes of JSON as the length says

A reply has the number of its request. JSON is passed on unparsed, so that no text of a program is interpreted here.
Library code in the program keeps every rule below, so a program that breaks one has forged its frames, and is ended:

- A frame is not empty and has at most `FRAME_BYTES`.
- A number is not used again before its reply.
- There are at most `calls` requests and `call_bytes` bytes of requests.

While `CALLS_AT_ONCE` requests wait for replies, nothing is read. Replies beyond `call_bytes` become errors.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from skillbus.common.bus.codec import encode
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.sandbox.program_runs import CALLS_AT_ONCE, FRAME_BYTES, ProgramError, ProgramReply
from skillbus.sandbox.adapters.bubblewrap.descriptors import IncomingStream
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError
from skillbus.sandbox.domain.run.tool_calls import ToolAccess

_HEADER_BYTES: Final = 8

log = structlog.get_logger(__name__)


class ToolChannel:
    """The host's end of one channel. Opened by `open_tool_channel`."""

    def __init__(self, ours: socket.socket, access: ToolAccess) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._access = access
        self._stream = IncomingStream(ours.fileno())
        self._left_calls = access.calls
        self._left_bytes = self._left_reply_bytes = access.call_bytes
        self._waiting: dict[int, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(CALLS_AT_ONCE)
        self._writing = asyncio.Lock()

    async def serve(self) -> None:
        """Pass on requests until the program closes its end. Raises ProtocolError for a forged frame."""
        while True:
            await self._room.acquire()
            try:
                header = await self._stream.readexactly(_HEADER_BYTES)
                size, number = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
                self._admit(size, number)
                body = await self._stream.readexactly(size)
            except asyncio.IncompleteReadError:
                return
            task = asyncio.create_task(self._answer(number, body))
            self._waiting[number] = task

    def _admit(self, size: int, number: int) -> None:
        """Count a request. Raises ProtocolError if it breaks a rule."""
        if not 0 < size <= FRAME_BYTES:
            raise ProtocolError(f"a frame of {size} bytes on the tool channel")
        if number in self._waiting:
            raise ProtocolError(f"number {number} twice on the tool channel")
        self._left_calls -= 1
        self._left_bytes -= size
        if self._left_calls < 0:
            raise ProtocolError(f"more than {self._access.calls} tool calls")
        if self._left_bytes < 0:
            raise ProtocolError(f"more than {self._access.call_bytes} bytes of tool calls")

    async def _answer(self, number: int, body: bytes) -> None:
        try:
            reply = await self._ask(body)
            async with self._writing:
                with suppress(ConnectionError):  # the program has closed its end, or has ended
                    frame = len(reply).to_bytes(4, "big") + number.to_bytes(4, "big") + reply
                    await asyncio.get_running_loop().sock_sendall(self._socket, frame)
        finally:
            del self._waiting[number]
            self._room.release()

    async def _ask(self, body: bytes) -> bytes:
        try:
            reply = await self._access.ask(body)
        except RequestError as error:
            return _encode_error(error)
        if not 0 < len(reply) <= min(FRAME_BYTES, self._left_reply_bytes):
            said = f"The reply of {len(reply)} bytes exceeds the {self._access.call_bytes} bytes of all replies."
            return _encode_error(RequestError(ErrorCode.PAYLOAD_TOO_LARGE, said))
        self._left_reply_bytes -= len(reply)
        return reply

    async def close(self) -> None:
        """Give up the requests that wait for replies, and close the host's end."""
        tasks = list(self._waiting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stream.stop()
        self._socket.close()


@asynccontextmanager
async def open_tool_channel(
    access: ToolAccess | None, break_off: Callable[[ProtocolError], None]
) -> AsyncGenerator[socket.socket | None]:
    """Yield the program's end, a copy of which goes to the program; None without access.

    The caller closes it once the copy is sent: the channel then ends with the program. `break_off` is called when the
    program forges a frame.
    """
    if access is None:
        yield None
        return
    ours, theirs = socket.socketpair()
    channel = ToolChannel(ours, access)

    async def serve() -> None:
        try:
            await channel.serve()
        except ProtocolError as error:
            log.warning("tool_channel_broken", reason=str(error))
            break_off(error)

    serving = asyncio.create_task(serve())
    try:
        yield theirs
    finally:
        theirs.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await channel.close()


def _encode_error(error: RequestError) -> bytes:
    return encode(ProgramReply(error=ProgramError(code=error.code.value, message=error.message[:2000])))
