"""Where a text may be cut: after a sentence, and where one is very long, after a clause or a word of it."""

import re
from collections.abc import Iterator
from typing import Final

_LONG: Final = 400
"""Characters of a sentence from which on it is cut within: tables, lists and data have no full stops."""
_CLOSING: Final = "\"'”’»)\\]）】」』》"
_SENTENCE: Final = re.compile(
    rf"[.!?…]+[{_CLOSING}]*(?=\s)(?!\s+[a-z])"  # not the dot of `e.g. this`
    rf"|[。！？；…]+[{_CLOSING}]*"
    r"|\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*"
)
_CLAUSE: Final = re.compile(rf".{{1,{_LONG}}}(?<=[\s,;:，、；：。])|.{{1,{_LONG}}}", re.DOTALL)


def ends(text: str) -> Iterator[int]:
    """Where it may end, in ascending order; the last is its own end. None of an empty text."""
    begin = 0
    for end in _sentence_ends(text):
        if end - begin > _LONG:
            yield from (clause.end() for clause in _CLAUSE.finditer(text, begin, end) if clause.end() < end)
        yield end
        begin = end


def _sentence_ends(text: str) -> Iterator[int]:
    end = 0
    for found in _SENTENCE.finditer(text):
        end = found.end()
        yield end
    if end < len(text):
        yield len(text)
