"""A request for several things, cut into the sentences that ask for them.

A model's vector of a long request is near to none of the tools that it wants. So the dense side compares each tool with
the sentences too, and the nearest counts; the lexical side reads the request as a whole, since its words add up.
"""

import re
from typing import Final

AT_MOST: Final = 4
_LEAST_WORDS: Final = 4
_HAN_A_WORD: Final = 2
_LEAST_CHARACTERS: Final = 4
_END: Final = re.compile(r"(?<=[.?!;])\s+|[。？！；\n]+")
_WORD: Final = re.compile(r"[^\W_\u3400-\u9fff\uf900-\ufaff]+")
_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")


def sentences(request: str) -> tuple[str, ...]:
    """Those that say something, at most four; none where there are not two of them."""
    telling = [part for part in (piece.strip() for piece in _END.split(request)) if _tells(part)]
    return tuple(telling[:AT_MOST]) if len(telling) > 1 else ()


def _tells(part: str) -> bool:
    words = {word.lower() for word in _WORD.findall(part)}
    return len(part) >= _LEAST_CHARACTERS and len(words) + len(set(_HAN.findall(part))) / _HAN_A_WORD >= _LEAST_WORDS
