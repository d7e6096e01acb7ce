"""A run that is followed, as Server-Sent Events (WHATWG HTML, section 9.2): `begun`, `output` as it comes, `reply`."""

import codecs
from typing import Final

from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import RunBegun, RunPrinted, RunReply
from skillbus.contracts.message import Message
from skillbus.contracts.sandbox.run_history import OutputStream, RunEvent, RunEventKind
from skillbus.gateway.domain.problem import problem_of

HEARTBEAT: Final = b": still there\n\n"
"""A comment: what is between here and the caller sees that the connection lives."""


class EventWriter:
    """Writes the events of one run. A character may come in two of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in OutputStream}

    def written(self, part: RunEvent | RunReply) -> bytes:
        """The bytes of an event; none of one that says nothing."""
        if isinstance(part, RunReply):
            return _event("reply", part)
        if part.kind is RunEventKind.BEGUN:
            return _event("begun", RunBegun(run_id=part.run_id))
        if part.kind is RunEventKind.ENDED:
            return b"".join(self._printed(part.number, stream, b"", final=True) for stream in OutputStream)
        return self._printed(part.number, part.stream or OutputStream.STDOUT, part.data)

    def failed(self, error: RequestError) -> bytes:
        """The last event when there will be no reply."""
        return _event("error", problem_of(error, self._path))

    def _printed(self, number: int, stream: OutputStream, data: bytes, *, final: bool = False) -> bytes:
        text = self._decoders[stream].decode(data, final)
        return _event("output", RunPrinted(number=number, stream=stream, text=text)) if text else b""


def _event(name: str, body: Message) -> bytes:
    return f"event: {name}\ndata: {body.model_dump_json()}\n\n".encode()
