"""Reply to a followed run: Server-Sent Events until the run ends or the caller leaves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import RunReply
from skillbus.contracts.sandbox.run_history import RunEvent
from skillbus.gateway.domain.runs.event_stream import HEARTBEAT, EventWriter
from skillbus.gateway.service.disconnection import CallerLeftError, await_while_connected

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
RunParts = AsyncGenerator[RunEvent | RunReply]


async def get_next_part(parts: RunParts) -> RunEvent | RunReply:
    """Return the next part. Raises RequestError for the first part if the run was refused: then no stream starts."""
    return await anext(parts)


class RunStream(Response):
    """Server-Sent Events of one run. If the caller leaves, `parts` is closed, which cancels the run."""

    media_type = EVENT_STREAM

    def __init__(self, first: RunEvent | RunReply, parts: RunParts, path: str) -> None:
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
        async for chunk in self._encode_chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _encode_chunks(self) -> AsyncIterator[bytes]:
        yield self._writer.encode_part(self._first)
        try:
            async with aclosing(_yield_pauses(self._parts)) as parts:
                async for part in parts:
                    yield HEARTBEAT if part is None else self._writer.encode_part(part)
        except RequestError as error:
            yield self._writer.encode_error(error)


async def _yield_pauses(parts: RunParts) -> AsyncGenerator[RunEvent | RunReply | None]:
    """Yield the parts, and None after every `HEARTBEAT_S` without one."""
    getting: asyncio.Future[RunEvent | RunReply] | None = None
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
