"""Splits a request for several things into the sentences that ask for them.

The vector of a long request is far from each of the tools that it needs. So the dense side compares each tool with the
sentences too, and the nearest counts. The lexical side uses the whole request, since its words add up.
"""

import re
from typing import Final

from skillbus.common.characters import HAN, HAN_CHARACTER

MAX_SENTENCES: Final = 4
_LEAST_WORDS: Final = 4
_HAN_A_WORD: Final = 2
_LEAST_CHARACTERS: Final = 4
_END: Final = re.compile(r"(?<=[.?!;])\s+|[。？！；\n]+")
_WORD: Final = re.compile(rf"[^\W_{HAN}]+")


def split_sentences(request: str) -> tuple[str, ...]:
    """Return up to four sentences that carry meaning, or none if there are fewer than two."""
    meaningful = list[str]()
    for part in map(str.strip, _END.split(request)):
        words = len({word.lower() for word in _WORD.findall(part)})
        words_and_han = words + len(set(HAN_CHARACTER.findall(part))) / _HAN_A_WORD
        if len(part) >= _LEAST_CHARACTERS and words_and_han >= _LEAST_WORDS:
            meaningful.append(part)
    return tuple(meaningful[:MAX_SENTENCES]) if len(meaningful) > 1 else ()
