"""Reply of Server-Sent Events (WHATWG HTML, section 9.2) until the work ends or the caller leaves."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Message
from skillbus.gateway.domain.problem import make_problem
from skillbus.gateway.service.runs.disconnection import CallerLeftError, await_while_connected

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
_HEARTBEAT: Final = b": still there\n\n"
"""Comment that shows proxies and the caller that the connection is alive."""
PartT = TypeVar("PartT")
StateT = TypeVar("StateT", bound=Message)
PartT_contra = TypeVar("PartT_contra", contravariant=True)


class PartWriter(Protocol[PartT_contra]):
    """Encoder of the parts of one stream. Nothing is sent for empty bytes."""

    def encode_part(self, part: PartT_contra) -> bytes:
        """Return the bytes of a part."""
        ...

    def encode_end(self) -> bytes:
        """Return the bytes after the last part."""
        ...

    def encode_error(self, error: RequestError) -> bytes:
        """Return the end of a stream that fails."""
        ...


class StateWriter(Generic[StateT]):
    """Encoder of the states of one thing: `progress` with each, `ended` with the last."""

    def __init__(self, path: str, has_ended: Callable[[StateT], bool]) -> None:
        self._path = path
        self._has_ended = has_ended

    def encode_part(self, part: StateT) -> bytes:
        """Return the event of a state."""
        return encode_event("ended" if self._has_ended(part) else "progress", part)

    def encode_end(self) -> bytes:
        """Return nothing: the last state says that it is the last."""
        return b""

    def encode_error(self, error: RequestError) -> bytes:
        """Return the event of an error, with a problem document."""
        return encode_event("error", make_problem(error, self._path))


class PartStream(Response, Generic[PartT]):
    """Parts of one piece of work as they come. If the caller leaves, `parts` is closed, which ends what it runs.

    With `goes_on` the work is finished all the same, and counts as a run of its caller until then.
    """

    media_type = EVENT_STREAM

    def __init__(
        self,
        getting: asyncio.Future[PartT | None],
        parts: AsyncGenerator[PartT],
        writer: PartWriter[PartT],
        headers: Mapping[str, str] | None = None,
        *,
        goes_on: bool = False,
    ) -> None:
        """`getting` gets the first of the parts, or None if there is none."""
        super().__init__(headers={**(headers or {}), "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._getting = getting
        self._parts = parts
        self._writer = writer
        self._goes_on = goes_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            async with aclosing(self._parts):
                try:
                    await send(start)
                    sending = self._send_parts(send)
                    await (sending if self._goes_on else await_while_connected(Request(scope, receive), sending))
                finally:  # a generator that is waited for cannot be closed
                    self._getting.cancel()
                    await asyncio.wait([self._getting])
        except CallerLeftError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_parts(self, send: Send) -> None:
        async def send_chunk(chunk: bytes) -> None:
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

        try:
            while True:
                await wait_pause(self._getting)
                if not self._getting.done():
                    await send_chunk(_HEARTBEAT)
                elif (part := self._getting.result()) is None:
                    await send_chunk(self._writer.encode_end())
                    return
                else:
                    await send_chunk(self._writer.encode_part(part))
                    self._getting = asyncio.ensure_future(anext(self._parts, None))
        except RequestError as error:
            await send_chunk(self._writer.encode_error(error))


async def open_part_stream(parts: AsyncGenerator[PartT], writer: PartWriter[PartT]) -> PartStream[PartT]:
    """Return the stream of work that others do. If it does not exist, RequestError is raised and no stream starts."""
    getting = asyncio.ensure_future(anext(parts, None))
    await asyncio.wait([getting])
    getting.result()
    return PartStream(getting, parts, writer)


def encode_event(name: str, body: Message) -> bytes:
    """Return an event with a body in JSON."""
    return f"event: {name}\ndata: {body.model_dump_json()}\n\n".encode()


async def wait_pause(getting: asyncio.Future[PartT]) -> None:
    """Wait for a part as long as a stream may be silent."""
    await asyncio.wait([getting], timeout=HEARTBEAT_S)
