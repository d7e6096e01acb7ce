"""Reply to a followed run: Server-Sent Events `begun`, `output` as it comes, and last `reply` or `error`.

Who watches the run of somebody else gets `running`, `output`, and last `ended` or `error`.
"""

import asyncio
import codecs
from collections.abc import AsyncGenerator
from typing import TypeVar

from fastapi import Request, Response

from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import RunBegun, RunPrinted
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import OutputStream, RunEvent, RunEventKind, RunRecord, RunState
from skillbus.gateway.domain.problem import make_problem
from skillbus.gateway.service.event_stream import PartStream, encode_event
from skillbus.gateway.service.runs.disconnection import await_while_connected

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
            return encode_event("reply", part)
        if part.kind is RunEventKind.BEGUN:
            return encode_event("begun", RunBegun(run_id=part.run_id))
        if part.kind is RunEventKind.ENDED:
            return b"".join(self._encode_output(part.number, stream, b"", final=True) for stream in OutputStream)
        return self._encode_output(part.number, part.stream or OutputStream.STDOUT, part.data)

    def encode_end(self) -> bytes:
        """Return nothing: a reply is the end."""
        return b""

    def encode_error(self, error: RequestError) -> bytes:
        """Return the bytes of the last event of a run without a reply."""
        return encode_event("error", make_problem(error, self._path))

    def _encode_output(self, number: int, stream: OutputStream, data: bytes, *, final: bool = False) -> bytes:
        text = self._decoders[stream].decode(data, final)
        return encode_event("output", RunPrinted(number=number, stream=stream, text=text)) if text else b""


class WatchedRunWriter(EventWriter):
    """Encoder of the events of a run that is watched: its record now and at its end, and what it prints between."""

    def encode_part(self, part: Message) -> bytes:
        """Return the bytes of an event; empty if it has no text."""
        if isinstance(part, RunRecord):
            return encode_event("running" if part.state is RunState.RUNNING else "ended", part)
        if isinstance(part, RunEvent) and part.kind is RunEventKind.BEGUN:
            return b""  # the record says so
        return super().encode_part(part)


async def open_run_stream(request: Request, parts: RunParts[ResultT]) -> Response:
    """Return the stream of a run or call. If the caller leaves, `parts` is closed, which cancels the run.

    Raises:
        CallerLeftError: The caller left before the first part.
        RequestError: The run was refused: then no stream starts.
    """
    first = asyncio.get_running_loop().create_future()
    first.set_result(await await_while_connected(request, _get_next_part(parts)))
    return PartStream(first, parts, EventWriter(request.url.path))


async def _get_next_part(parts: RunParts[ResultT]) -> RunEvent | ResultT:
    return await anext(parts)
