"""Calls between two processes of one skillbus, both ways, over a pair of connected sockets.

A frame is a length and a pickled value. The main process makes the pair and starts the other one with its
end, so that nobody else can write to it, and both run the same code for the same user: pickle is as safe here as in
`multiprocessing`.
"""

import asyncio
import pickle
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

_LENGTH: Final = struct.Struct("!I")
_CALL, _RESULT, _ERROR = range(3)

Handlers = Mapping[str, Callable[..., Awaitable[object]]]
"""Functions that the other process may call, by name."""


class ChannelClosedError(Exception):
    """The other process has ended."""


class ProcessChannel(asyncio.Protocol):
    """One end. Made by `open_channel`."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._received = bytearray()
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._transport: asyncio.WriteTransport | None = None
        self.closed = asyncio.Event()
        """Set when the other process has ended, or this end was closed."""

    async def call(self, name: str, *arguments: object) -> Any:  # each function has a type of its own
        """Call a function of the other process, and return its result or raise its error.

        Raises:
            ChannelClosedError: The other process has ended, or did so before it answered.
        """
        if self._transport is None or self.closed.is_set():
            raise ChannelClosedError("the other process has ended")
        self._numbers += 1
        number = self._numbers
        result = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._write(_CALL, number, (name, arguments))
            return await result
        finally:
            del self._waiting[number]

    def close(self) -> None:
        """Close this end. Calls that wait for an answer fail."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]  # it is a stream
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        at = 0
        while len(self._received) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received, at)
            start = at + _LENGTH.size
            if len(self._received) - start < size:
                break
            at = start + size
            self._take(*pickle.loads(memoryview(self._received)[start:at]))  # noqa: S301 (see the module)
        del self._received[:at]

    def connection_lost(self, _: Exception | None) -> None:
        self.closed.set()
        for result in self._waiting.values():
            if not result.done():
                result.set_exception(ChannelClosedError("the other process has ended"))
        for task in self._running:
            task.cancel()  # nobody waits for the answer

    def _take(self, kind: int, number: int, value: Any) -> None:
        if kind == _CALL:
            task = asyncio.get_running_loop().create_task(self._answer(number, *value))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            return
        result = self._waiting.get(number)
        if result is None or result.done():  # its caller was cancelled
            return
        if kind == _RESULT:
            result.set_result(value)
        else:
            result.set_exception(_make_error(*value))

    async def _answer(self, number: int, name: str, arguments: tuple[object, ...]) -> None:
        try:
            kind, value = _RESULT, await self._handlers[name](*arguments)
        except Exception as error:  # noqa: BLE001 (boundary of the reply: who called handles it, or logs it)
            kind, value = _ERROR, (type(error), error.args, dict(error.__dict__))
        self._write(kind, number, value)

    def _write(self, kind: int, number: int, value: object) -> None:
        body = pickle.dumps((kind, number, value), pickle.HIGHEST_PROTOCOL)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(body)) + body)


def _make_error(kind: type[Exception], arguments: tuple[object, ...], attributes: dict[str, object]) -> Exception:
    """Return an error as it was raised: its constructor may take other arguments than it keeps."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


@asynccontextmanager
async def open_channel(end: socket.socket, handlers: Handlers) -> AsyncGenerator[ProcessChannel]:
    """Answer the other process by `handlers` while the context is open. It owns the socket."""
    _, channel = await asyncio.get_running_loop().create_connection(lambda: ProcessChannel(handlers), sock=end)
    try:
        yield channel
    finally:
        channel.close()
        await channel.closed.wait()
