"""Files of a form (RFC 7578, `multipart/form-data`), read while they arrive: none is held in memory or on a disk."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from skillbus.contracts.errors import ErrorCode, RequestError

_DISPOSITION: Final = b"content-disposition"
_END: Final = None
_Event = tuple[str, bytes]


class FormFiles:
    """Files of one form. Each must be read to its end before the next one is asked for."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        """Read a body with this `Content-Type`. Raises RequestError if it names no boundary."""
        _, options = parse_options_header(content_type)
        if not options.get(b"boundary"):
            raise RequestError(ErrorCode.INVALID_REQUEST, "The form has no boundary: let your HTTP library set it.")
        self._body = body
        self._events: deque[_Event] = deque()
        self._header = self._disposition = b""
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_to_header,
                "on_header_value": self._add_to_value,
                "on_headers_finished": lambda: self._events.append(("part", self._disposition)),
                "on_header_end": self._end_header,
                "on_part_data": lambda data, start, end: self._events.append(("data", data[start:end])),
                "on_part_end": lambda: self._events.append(("end", b"")),
                "on_end": lambda: self._events.append(("last", b"")),
            },
        )

    async def iterate_files(self) -> AsyncGenerator[tuple[str, AsyncIterator[bytes]]]:
        """Yield the name and the content of each file. Raises RequestError for a form that is broken."""
        while (event := await self._get_event())[0] != "last":
            if event[0] == "part":
                yield self._parse_name(event[1]), self._iterate_content()

    async def _iterate_content(self) -> AsyncGenerator[bytes]:
        while (event := await self._get_event())[0] == "data":
            yield event[1]

    async def _get_event(self) -> _Event:
        while not self._events:
            chunk = await anext(self._body, _END)
            if not chunk:
                if chunk is _END:
                    raise RequestError(ErrorCode.INVALID_REQUEST, "The form ends before its last boundary.")
                continue
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"The form cannot be read: {error}.") from error
        return self._events.popleft()

    def _begin_part(self) -> None:
        self._header = self._value = self._disposition = b""

    def _add_to_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == _DISPOSITION:
            self._disposition = self._value
        self._header = self._value = b""

    def _parse_name(self, disposition: bytes) -> str:
        _, options = parse_options_header(disposition)
        name = options.get(b"filename", b"").decode("utf-8", "replace").strip()
        if not name:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, "A part of the form is no file: send other values in the query of the URL."
            )
        return name
