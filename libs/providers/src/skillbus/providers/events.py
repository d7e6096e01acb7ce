"""Server-sent events of a reply (WHATWG HTML, section 9.2). The reply is untrusted, and may be cut at any byte."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    name: str
    """Empty if the server gives none."""
    data: bytes
    """All `data` lines, joined by line feeds."""


class EventTooLargeError(Exception):
    """An event of more than the allowed bytes."""


class EventDecoder:
    """Decodes the bytes of a stream as they come. A line ends with LF, CR LF or CR, in the middle of a chunk or not."""

    def __init__(self, event_bytes: int) -> None:
        """Accept events of at most `event_bytes`."""
        self._event_bytes = event_bytes
        self._line: list[bytes] = []
        """Parts of a line that has not ended yet."""
        self._after_return = False
        """True if the last chunk ended with CR: an LF at the next one's beginning belongs to it."""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the event so far."""
        self.comments = 0
        """Comments so far. Servers send them as signs of life."""

    def decode(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that the chunk completes. Raises EventTooLargeError."""
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        found: list[ServerEvent] = []
        if end:
            lines = b"".join([*self._line, chunk[:end]]).splitlines()
            self._line = []
            for line in lines:
                self._decode_line(line, found)
        if end < len(chunk):
            self._line.append(chunk[end:])
            self._count_bytes(len(chunk) - end)
        return found

    def finish(self) -> list[ServerEvent]:
        """Return the last event of a stream that ends without the empty line after it."""
        return self.decode(b"\n\n")

    def _decode_line(self, line: bytes, found: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                found.append(ServerEvent(self._name, b"\n".join(self._data)))
            self._name, self._data, self._size = "", [], 0
            return
        self._count_bytes(len(line))
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value[:100].decode("utf-8", "replace")
        elif not field:
            self.comments += 1

    def _count_bytes(self, count: int) -> None:
        self._size += count
        if self._size > self._event_bytes:
            raise EventTooLargeError
