"""Places where a text may be cut: after a sentence and, in a very long one, after a clause or a word."""

import re
from collections.abc import Iterator
from typing import Final

_LONG: Final = 400
"""Characters of a sentence from which on it is cut inside: tables, lists and data have no full stops."""
_CLOSING: Final = "\"'”’»)\\]）】」』》"
_SENTENCE: Final = re.compile(
    rf"[.!?…]+[{_CLOSING}]*(?=\s)(?!\s+[a-z])"  # not the dot of `e.g. this`
    rf"|[。！？；…]+[{_CLOSING}]*"
    r"|\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*"
)
_CLAUSE: Final = re.compile(rf".{{1,{_LONG}}}(?<=[\s,;:，、；：。])|.{{1,{_LONG}}}", re.DOTALL)


def find_cuts(text: str) -> Iterator[int]:
    """Yield the ends of sentences and clauses in ascending order; the last one is the end of the text."""
    begin = 0
    ends = [found.end() for found in _SENTENCE.finditer(text)]
    if text and (not ends or ends[-1] < len(text)):
        ends.append(len(text))
    for end in ends:
        if end - begin > _LONG:
            yield from (clause.end() for clause in _CLAUSE.finditer(text, begin, end) if clause.end() < end)
        yield end
        begin = end
