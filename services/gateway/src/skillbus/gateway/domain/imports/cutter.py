"""Cutter for a streamed body of many JSON values: lines of NDJSON, or the elements of one JSON array.

It cuts without parsing and holds at most one value. A value over the limit is skipped and reported. A malformed value
affects nothing but itself. No streaming parser gives these bounds: ijson 3.6 (yajl2_c) ends at the first malformed
value, held a string of 64 MiB as a whole (140 MiB of memory), and was killed by 200,000 nested brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

LINE_BYTES: Final = 512 * 1024
"""Longest value. A message of the bus takes 1 MiB, and valid descriptions and items are much smaller."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BETWEEN: Final = re.compile(rb'[^"\[\]{},]*(?:' + _STRING + rb'[^"\[\]{},]*)*["\[\]{},]', re.DOTALL)
_INSIDE: Final = re.compile(rb'[^"\[\]{}]*(?:' + _STRING + rb'[^"\[\]{}]*)*["\[\]{}]', re.DOTALL)
"""Both match up to the next structural character: `_BETWEEN` between elements, `_INSIDE` inside one. Complete strings
are skipped; the opening quote of an incomplete string counts as structural, and so does that of a last string with no
structural character behind it. Not possessive: CPython before 3.11.5 matches possessive groups wrongly (gh-106052), and
Debian 12 has 3.11.2."""
_IN_STRING: Final = re.compile(rb'["\\]')


@dataclass(frozen=True, slots=True)
class BodyPiece:
    """One value of the body, or its problem."""

    line: int
    """Line of NDJSON, counting blank ones, or position in the array. The first is 1."""
    text: bytes = b""
    problem: str | None = None


class _Form(Protocol):
    def feed(self, chunk: bytes) -> Iterator[BodyPiece]: ...

    def end(self) -> Iterator[BodyPiece]: ...


class BodyCutter:
    """Cuts one body. A body that starts with `[` is an array: no NDJSON line that holds an object starts so."""

    def __init__(self, max_bytes: int = LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._head = b""
        self._started = False
        self._form: _Form = _Lines(max_bytes)

    def feed(self, chunk: bytes) -> Iterator[BodyPiece]:
        """Yield the values that end in the next chunk of the body."""
        if self._started:
            yield from self._form.feed(chunk)
            return
        head = self._head + chunk
        if _BOM.startswith(head):
            self._head = head
            return
        head, self._head = head.removeprefix(_BOM), b""
        start = head.lstrip(_BLANK)
        self._started = bool(start)
        if start.startswith(b"["):
            self._form, head = _Elements(self._max_bytes), start[1:]
        yield from self._form.feed(head)

    def end(self) -> Iterator[BodyPiece]:
        """Yield the values that end with the body."""
        yield from self._form.feed(self._head)
        yield from self._form.end()


class _Value:
    """Value that is being read."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._text = bytearray()
        self._over = False
        self.line = 1

    def append(self, part: bytes) -> None:
        if len(self._text) + len(part) > self._max_bytes:
            self._over = True
            self._text.clear()
        if not self._over:
            self._text += part

    def finish(self) -> BodyPiece | None:
        """Return the value unless it is blank, and start the next one."""
        line, text = self.line, bytes(self._text.strip(_BLANK))
        over, self._over = self._over, False
        self._text.clear()
        self.line += 1
        if over:
            return BodyPiece(line, problem=f"is longer than {self._max_bytes} bytes")
        return BodyPiece(line, text) if text else None


class _Lines:
    def __init__(self, max_bytes: int) -> None:
        self._value = _Value(max_bytes)

    def feed(self, chunk: bytes) -> Iterator[BodyPiece]:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._value.append(part)
            if (piece := self._value.finish()) is not None:
                yield piece
        self._value.append(rest)

    def end(self) -> Iterator[BodyPiece]:
        if (piece := self._value.finish()) is not None:
            yield piece


class _Elements:
    """Elements between the brackets of an array. Only strings and nesting are tracked; a parser judges each element."""

    def __init__(self, max_bytes: int) -> None:
        self._value = _Value(max_bytes)
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._closed = False

    def feed(self, chunk: bytes) -> Iterator[BodyPiece]:
        start = at = 0
        while not self._closed and (at := self._find_structural(chunk, at)) < len(chunk):
            character, at = chunk[at : at + 1], at + 1
            if not self._ends_element(character):
                continue
            self._value.append(chunk[start : at - 1])
            start = at
            line, piece = self._value.line, self._value.finish()
            if piece is not None:
                yield piece
            elif not self._closed:
                yield BodyPiece(line, problem="is missing before a comma")
        self._value.append(chunk[start:])

    def end(self) -> Iterator[BodyPiece]:
        piece = self._value.finish()
        if not self._closed:
            yield BodyPiece(self._value.line - 1, problem="the body ends before the array ends")
        elif piece is not None:
            yield BodyPiece(piece.line, problem="the body continues after the end of the array")

    def _find_structural(self, chunk: bytes, at: int) -> int:
        """Return the position of the next structural character; the length of the chunk if there is none."""
        if self._escaped and at < len(chunk):
            self._escaped, at = False, at + 1
        if self._in_string:
            found = _IN_STRING.search(chunk, at)
        else:
            found = (_INSIDE if self._depth else _BETWEEN).match(chunk, at)
        return found.end() - 1 if found is not None else len(chunk)

    def _ends_element(self, character: bytes) -> bool:
        if character == b'"':
            self._in_string = not self._in_string
        elif character == b"\\":
            self._escaped = True
        elif character in b"[{":
            self._depth += 1
        elif character in b"]}" and self._depth:
            self._depth -= 1
        elif not self._depth:
            self._closed = character == b"]"
            return self._closed or character == b","
        return False
