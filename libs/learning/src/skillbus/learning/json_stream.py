"""Reads large JSON documents piece by piece: the elements of named arrays one at a time, other values whole.

Evidence needs the literal text of an element and its line, which streaming parsers such as ijson do not give.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

ELEMENT_CHARACTERS: Final = 16 * 1024 * 1024
"""Longest single element."""
_SPACE: Final = " \t\r\n"

JsonPath = tuple[str, ...]


class JsonStreamError(ValueError):
    """The text is not JSON, ends early, nests too deep, or has an element that is too long."""


@dataclass(frozen=True, slots=True)
class JsonElement:
    """Value of a document: an element of an array that was asked for, or a whole other value."""

    path: JsonPath
    """Keys from the top of the document."""
    value: JsonValue
    text: str
    """Literal text of the value."""
    line: int
    """Line of its first character, counted from 1."""


def iterate_json(chunks: Iterable[str], arrays: Collection[JsonPath]) -> Iterator[JsonElement]:
    """Yield the elements of the arrays at the given paths, and every other value above them.

    Memory is bounded by the longest element. Raises JsonStreamError at the first fault; what was read before it was
    yielded.
    """
    return _Walker(iter(chunks), arrays).walk(())


class _Walker:
    """Position in a document of which only a window is in memory."""

    def __init__(self, chunks: Iterator[str], arrays: Collection[JsonPath]) -> None:
        self._chunks = chunks
        self._arrays = frozenset(arrays)
        self._above = frozenset(path[:length] for path in arrays for length in range(len(path)))
        self._window = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def walk(self, path: JsonPath) -> Iterator[JsonElement]:
        """Yield the values of the object or array that begins here."""
        first = self._peek()
        if first == "{" and path in self._above:
            yield from self._walk_object(path)
        elif first == "[" and path in self._arrays:
            yield from self._walk_array(path)
        else:
            yield self._decode(path)

    def _walk_object(self, path: JsonPath) -> Iterator[JsonElement]:
        self._skip("{")
        while self._peek() != "}":
            key = self._decode(path).value
            self._skip(":")
            yield from self.walk((*path, str(key)))
            if self._peek() != "}":
                self._skip(",")
        self._skip("}")

    def _walk_array(self, path: JsonPath) -> Iterator[JsonElement]:
        self._skip("[")
        while self._peek() != "]":
            yield self._decode(path)
            if self._peek() != "]":
                self._skip(",")
        self._skip("]")

    def _peek(self) -> str:
        while True:
            while self._at < len(self._window):
                character = self._window[self._at]
                if character not in _SPACE:
                    return character
                self._advance(self._at + 1)
            if not self._fill(1):
                raise JsonStreamError(f"The JSON ends early, in line {self._line}.")

    def _skip(self, expected: str) -> None:
        if self._peek() != expected:
            raise JsonStreamError(f"The JSON has {self._peek()!r} in place of {expected!r} in line {self._line}.")
        self._advance(self._at + 1)

    def _advance(self, to: int) -> None:
        self._line += self._window.count("\n", self._at, to)
        self._at = to

    def _fill(self, characters: int) -> bool:
        """Drop what was read, and add at least this many characters. Return False if there are no more."""
        parts, added = [self._window[self._at :]], 0
        while added < characters and not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            parts.append(chunk or "")
            added += len(chunk or "")
        self._window, self._at = "".join(parts), 0
        return added > 0

    def _decode(self, path: JsonPath) -> JsonElement:
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._window, self._at)
            except RecursionError as error:
                raise JsonStreamError(f"The JSON nests too deep in line {self._line}.") from error
            except ValueError as error:
                if len(self._window) - self._at > ELEMENT_CHARACTERS:
                    raise JsonStreamError(f"A value of the JSON in line {self._line} is too long or broken.") from error
                if not self._fill(len(self._window) - self._at + 1):
                    raise JsonStreamError(f"The JSON is broken in line {self._line}.") from error
                continue
            if end == len(self._window) and self._fill(1):
                continue  # A number may go on in the next chunk.
            element = JsonElement(path, value, self._window[self._at : end], self._line)
            self._advance(end)
            return element


_DECODER: Final = json.JSONDecoder()
