"""Reply to a followed run: Server-Sent Events (WHATWG HTML, section 9.2) until the run ends or the caller leaves.

The events are `begun`, `output` as it comes, and last `reply` or `error`.
"""

import asyncio
import codecs
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import RunBegun, RunPrinted
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import OutputStream, RunEvent, RunEventKind
from skillbus.gateway.domain.problem import make_problem
from skillbus.gateway.service.runs.disconnection import CallerLeftError, await_while_connected

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
HEARTBEAT: Final = b": still there\n\n"
"""Comment that shows proxies and the caller that the connection is alive."""
ResultT = TypeVar("ResultT", bound=Message)
RunParts = AsyncGenerator[RunEvent | ResultT]
"""Events of a run, and its result at the end."""


class EventWriter:
    """Encoder of the events of one run. A UTF-8 character may be split over two events of the run."""

    def __init__(self, path: str) -> None:
        self._path = path
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in OutputStream}

    def encode_part(self, part: Message) -> bytes:
        """Return the bytes of an event; empty if it has no text."""
        if not isinstance(part, RunEvent):
            return _encode("reply", part)
        if part.kind is RunEventKind.BEGUN:
            return _encode("begun", RunBegun(run_id=part.run_id))
        if part.kind is RunEventKind.ENDED:
            return b"".join(self._encode_output(part.number, stream, b"", final=True) for stream in OutputStream)
        return self._encode_output(part.number, part.stream or OutputStream.STDOUT, part.data)

    def encode_error(self, error: RequestError) -> bytes:
        """Return the bytes of the last event of a run without a reply."""
        return _encode("error", make_problem(error, self._path))

    def _encode_output(self, number: int, stream: OutputStream, data: bytes, *, final: bool = False) -> bytes:
        text = self._decoders[stream].decode(data, final)
        return _encode("output", RunPrinted(number=number, stream=stream, text=text)) if text else b""


def _encode(name: str, body: Message) -> bytes:
    return f"event: {name}\ndata: {body.model_dump_json()}\n\n".encode()


async def get_next_part(parts: RunParts[ResultT]) -> RunEvent | ResultT:
    """Return the next part. Raises RequestError for the first part if the run was refused: then no stream starts."""
    return await anext(parts)


class RunStream(Response, Generic[ResultT]):
    """Server-Sent Events of one run or call. If the caller leaves, `parts` is closed, which cancels the run."""

    media_type = EVENT_STREAM

    def __init__(self, first: Message, parts: RunParts[ResultT], path: str) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._first = first
        self._parts = parts
        self._writer = EventWriter(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            async with aclosing(self._parts):
                await send(start)
                await await_while_connected(Request(scope, receive), self._send_chunks(send))
        except CallerLeftError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, send: Send) -> None:
        async def send_chunk(chunk: bytes) -> None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

        await send_chunk(self._writer.encode_part(self._first))
        try:
            async with aclosing(_yield_pauses(self._parts)) as parts:
                async for part in parts:
                    await send_chunk(HEARTBEAT if part is None else self._writer.encode_part(part))
        except RequestError as error:
            await send_chunk(self._writer.encode_error(error))


async def _yield_pauses(parts: RunParts[ResultT]) -> AsyncGenerator[RunEvent | ResultT | None]:
    """Yield the parts, and None after every `HEARTBEAT_S` without one."""
    getting: asyncio.Future[RunEvent | ResultT] | None = None
    try:
        while True:
            getting = getting or asyncio.ensure_future(get_next_part(parts))
            await asyncio.wait([getting], timeout=HEARTBEAT_S)
            if not getting.done():
                yield None
                continue
            try:
                part = await getting
            except StopAsyncIteration:
                return
            getting = None
            yield part
    finally:
        if getting is not None:
            getting.cancel()
            await asyncio.wait([getting])
