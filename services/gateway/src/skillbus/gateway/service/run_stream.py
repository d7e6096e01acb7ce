"""The answer to a run that is followed: events as they come, until the caller leaves."""

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
from skillbus.gateway.service.disconnection import CallerLeftError, while_connected

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
Parts = AsyncGenerator[RunEvent | RunReply]


async def first_part(parts: Parts) -> RunEvent | RunReply:
    """What comes first. Raises RequestError when the run was refused: then the answer is no stream."""
    return await anext(parts)


class RunStream(Response):
    """Server-Sent Events of one run. A caller that leaves closes `parts`, which ends the run."""

    media_type = EVENT_STREAM

    def __init__(self, first: RunEvent | RunReply, parts: Parts, path: str) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._first = first
        self._parts = parts
        self._writer = EventWriter(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            async with aclosing(self._parts):
                await send(start)
                await while_connected(Request(scope, receive), self._send(send))
        except CallerLeftError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send) -> None:
        async for chunk in self._chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield self._writer.written(self._first)
        try:
            async with aclosing(_with_pauses(self._parts)) as parts:
                async for part in parts:
                    yield HEARTBEAT if part is None else self._writer.written(part)
        except RequestError as error:
            yield self._writer.failed(error)


async def _with_pauses(parts: Parts) -> AsyncGenerator[RunEvent | RunReply | None]:
    """The parts, with None where none came for a while."""
    getting: asyncio.Future[RunEvent | RunReply] | None = None
    try:
        while True:
            getting = getting or asyncio.ensure_future(first_part(parts))
            await asyncio.wait([getting], timeout=HEARTBEAT_S)
            if not getting.done():
                yield None
                continue
            part, getting = await _result(getting), None
            if part is None:
                return
            yield part
    finally:
        if getting is not None:
            getting.cancel()
            await asyncio.wait([getting])


async def _result(getting: asyncio.Future[RunEvent | RunReply]) -> RunEvent | RunReply | None:
    try:
        return await getting
    except StopAsyncIteration:
        return None
