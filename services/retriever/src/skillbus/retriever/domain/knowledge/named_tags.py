"""Whether a query names a tag of an item, as a whole."""

import re
from collections.abc import Sequence
from typing import Final

_WITHIN: Final = re.compile(r"[\w.\-\[\]/]")
"""What a tag may be a part of: `timeout` is not named by `keepalive_timeout`, nor `key` by `key-auth`."""
_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_LEAST_CHARACTERS: Final = 2


def names_one(query: str, tags: Sequence[str]) -> bool:
    """Whether one of the tags stands in the query, whatever the case."""
    said = query.lower()
    return any(len(tag) >= _LEAST_CHARACTERS and _names(said, tag.lower()) for tag in tags)


def _names(said: str, tag: str) -> bool:
    at = said.find(tag)
    while at >= 0:
        if _ends(said[at - 1 : at]) and _ends(_next(said, at + len(tag))):
            return True
        at = said.find(tag, at + 1)
    return False


def _next(said: str, at: int) -> str:
    """The character there; of a full stop the one behind it, which tells the end of a sentence from a dotted name."""
    return said[at + 1 : at + 2] if said[at : at + 1] == "." else said[at : at + 1]


def _ends(character: str) -> bool:
    """Chinese has no space between words."""
    return not character or not _WITHIN.match(character) or bool(_HAN.match(character))
