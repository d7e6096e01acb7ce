"""A body of many JSON values, cut into them while it streams: lines of NDJSON, or the elements of one JSON array.

Nothing is parsed here, and no more than one value is held. A value over the limit is passed over, and said so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

LINE_BYTES: Final = 512 * 1024
"""The longest value: a message on the bus takes 1 MiB, and a description by the contract is much smaller."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BETWEEN: Final = re.compile(rb'[^"\[\]{},]*(?:' + _STRING + rb'[^"\[\]{},]*)*["\[\]{},]', re.DOTALL)
_INSIDE: Final = re.compile(rb'[^"\[\]{}]*(?:' + _STRING + rb'[^"\[\]{}]*)*["\[\]{}]', re.DOTALL)
"""Up to the next sign that matters, between elements and inside of one. A string that ends in this chunk is passed over
at once; the quote of another one is such a sign, and that of the last one where no sign follows it. Not possessive:
Python before 3.11.5 gets possessive groups wrong (CPython's gh-106052), and Debian 12 has 3.11.2."""
_IN_STRING: Final = re.compile(rb'["\\]')


@dataclass(frozen=True, slots=True)
class Piece:
    """One value as it stands in the body, or what is wrong with it."""

    line: int
    """From 1: the line of NDJSON, blank ones counted too; the place in an array."""
    text: bytes = b""
    problem: str | None = None


class _Form(Protocol):
    def feed(self, chunk: bytes) -> Iterator[Piece]: ...

    def end(self) -> Iterator[Piece]: ...


class Cutter:
    """Cuts one body. An array is known by its bracket: no line of NDJSON that is an object begins with one."""

    def __init__(self, longest_bytes: int = LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._head = b""
        self._begun = False
        self._form: _Form = _Lines(longest_bytes)

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The values that end in the next part of the body."""
        if self._begun:
            yield from self._form.feed(chunk)
            return
        head = self._head + chunk
        if _BOM.startswith(head):
            self._head = head
            return
        head, self._head = head.removeprefix(_BOM), b""
        start = head.lstrip(_BLANK)
        self._begun = bool(start)
        if start.startswith(b"["):
            self._form, head = _Elements(self._longest_bytes), start[1:]
        yield from self._form.feed(head)

    def end(self) -> Iterator[Piece]:
        """The values that end with the body."""
        yield from self._form.feed(self._head)
        yield from self._form.end()


class _Value:
    """What was read of the value at hand."""

    def __init__(self, longest_bytes: int) -> None:
        self._longest_bytes = longest_bytes
        self._text = bytearray()
        self._over = False
        self.line = 1

    def keep(self, part: bytes) -> None:
        """More of it."""
        if len(self._text) + len(part) > self._longest_bytes:
            self._over = True
            self._text.clear()
        if not self._over:
            self._text += part

    def ended(self) -> Piece | None:
        """The value, if it is not blank; the next one begins."""
        line, text = self.line, bytes(self._text.strip(_BLANK))
        over, self._over = self._over, False
        self._text.clear()
        self.line += 1
        if over:
            return Piece(line, problem=f"is longer than {self._longest_bytes} bytes")
        return Piece(line, text) if text else None


class _Lines:
    def __init__(self, longest_bytes: int) -> None:
        self._value = _Value(longest_bytes)

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._value.keep(part)
            if (piece := self._value.ended()) is not None:
                yield piece
        self._value.keep(rest)

    def end(self) -> Iterator[Piece]:
        if (piece := self._value.ended()) is not None:
            yield piece


class _Elements:
    """Between the brackets of an array. Only strings and nesting are followed; whoever parses an element judges it."""

    def __init__(self, longest_bytes: int) -> None:
        self._value = _Value(longest_bytes)
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._closed = False

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        start = at = 0
        while not self._closed and (at := self._next(chunk, at)) < len(chunk):
            sign, at = chunk[at : at + 1], at + 1
            if not self._ends_element(sign):
                continue
            self._value.keep(chunk[start : at - 1])
            start = at
            yield from self._element(last=self._closed)
        self._value.keep(chunk[start:])

    def end(self) -> Iterator[Piece]:
        piece = self._value.ended()
        if not self._closed:
            where = self._value.line - 1
            yield Piece(where, problem="the body ends before this array does")
        elif piece is not None:
            yield Piece(piece.line, problem="the body goes on after its array has ended")

    def _next(self, chunk: bytes, at: int) -> int:
        """Where the next sign that matters is; the end of the chunk if there is none."""
        if self._escaped and at < len(chunk):
            self._escaped, at = False, at + 1
        if self._in_string:
            found = _IN_STRING.search(chunk, at)
        else:
            found = (_INSIDE if self._depth else _BETWEEN).match(chunk, at)
        return found.end() - 1 if found is not None else len(chunk)

    def _ends_element(self, sign: bytes) -> bool:
        if sign == b'"':
            self._in_string = not self._in_string
        elif sign == b"\\":
            self._escaped = True
        elif sign in b"[{":
            self._depth += 1
        elif sign in b"]}" and self._depth:
            self._depth -= 1
        elif not self._depth:
            self._closed = sign == b"]"
            return self._closed or sign == b","
        return False

    def _element(self, *, last: bool) -> Iterator[Piece]:
        line, piece = self._value.line, self._value.ended()
        if piece is not None:
            yield piece
        elif not last:
            yield Piece(line, problem="there is nothing before this comma")
