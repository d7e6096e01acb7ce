"""Server-Sent Events of a followed run (WHATWG HTML, section 9.2): `begun`, `output` as it comes, and last `reply`."""

import codecs
from typing import Final

from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import RunBegun, RunPrinted, RunReply
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import OutputStream, RunEvent, RunEventKind
from skillbus.gateway.domain.problem import make_problem

HEARTBEAT: Final = b": still there\n\n"
"""Comment that shows proxies and the caller that the connection is alive."""


class EventWriter:
    """Encoder of the events of one run. A UTF-8 character may be split over two events of the run."""

    def __init__(self, path: str) -> None:
        self._path = path
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in OutputStream}

    def encode_part(self, part: RunEvent | RunReply) -> bytes:
        """Return the bytes of an event; empty if it has no text."""
        if isinstance(part, RunReply):
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
