"""Which items say much the same, so that one of them is enough in a context.

Likeness of texts is not likeness of rules: of two that differ in a number or in a `not`, both are wanted. Nor is the
same sentence about another module the same. So two items are alike when

- their texts are: the same apart from case, width, blanks and punctuation; or of title and content at least 0.8 of the
  runs of three characters (Jaccard) are the same, and so are the numbers and the negations;
- and what the one above says holds wherever the one below does.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final
from unicodedata import normalize

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.scope import ScopeMatch, match_scope

LEAST: Final = 0.8
"""Jaccard index from which on texts are alike."""
_RUN: Final = 3
_LEAST_KEYS: Final = 0.2
"""Of the keys of two texts, those that both have, from which on their runs are compared. An index of 0.8 comes from
every 27th character being another, which leaves some 0.35."""
_CLAUSE: Final = 10
"""Characters between two blanks from which on it is no word but a clause of Chinese, which tells by itself."""
_TELLING: Final = 16
"""Characters from which on a content says by itself what it is about. Below it needs its title: `30 s`."""
_BLANK: Final = re.compile(r"[\W_]+")
_DECISIVE: Final = re.compile(
    r"\d+(?:[.,:]\d+)*|\b(?:not?|never|none|nor|neither|without|cannot|except|unless|disabled?|den(?:y|ied))\b"
    r"|n['’]t\b|[不无非未勿否禁莫没除]"
)
_COVERING: Final = frozenset({ScopeMatch.EXACT, ScopeMatch.PATTERN, ScopeMatch.PARENT, ScopeMatch.GENERAL})


@dataclass(frozen=True)
class Wording:
    """What of an item is compared. Made by `wording_of`."""

    scope: str
    content: str
    """Plain: letters and digits of one case and width, single blanks."""
    plain: str
    """So are title and content."""
    text: str
    """As it is."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """By which texts that may be alike are found: pairs of words, and clauses."""
        words = self.plain.split()
        pairs = map(" ".join, pairwise(words))
        return frozenset((*pairs, *(word for word in words if len(word) >= _CLAUSE)))

    @cached_property
    def runs(self) -> frozenset[str]:
        """Of three characters; it costs some ten times the keys."""
        return frozenset(self.plain[at : at + _RUN] for at in range(len(self.plain) - _RUN + 1))


def wording_of(item: KnowledgeItem) -> Wording:
    """The wording of an item."""
    content = _plain(item.content)
    return Wording(item.scope, content, f"{_plain(item.title)} {content}", f"{item.title}\n{item.content}")


class Said:
    """What the items of a context say so far. The cost of asking grows with a text, and hardly with their number."""

    def __init__(self, wanted: str | None) -> None:
        """`wanted` is the scope that is asked for, if any."""
        self._wanted = wanted
        self._wordings: list[Wording] = []
        self._places: dict[str, int] = {}
        """Which of them say a key, or are that content: a bit each. Lists would be work for the garbage collector."""

    def add(self, wording: Wording) -> None:
        """It is said from now on."""
        bit = 1 << len(self._wordings)
        for key in (wording.content, *wording.keys):
            self._places[key] = self._places.get(key, 0) | bit
        self._wordings.append(wording)

    def tells(self, wording: Wording) -> bool:
        """Whether one of them is alike."""
        shared = Counter(place for key in wording.keys for place in _bits(self._places.get(key, 0)))
        likely = {place for place, count in shared.items() if self._may_be_alike(place, count, wording)}
        likely.update(_bits(self._places.get(wording.content, 0)))
        return any(alike(self._wordings[place], wording, self._wanted) for place in likely)

    def _may_be_alike(self, place: int, shared: int, wording: Wording) -> bool:
        return shared >= _LEAST_KEYS * (len(wording.keys) + len(self._wordings[place].keys) - shared)


def alike(above: Wording, below: Wording, wanted: str | None) -> bool:
    """Whether the one below can be left out beside the one above. `wanted` is the scope that is asked for, if any."""
    return _holds_for(above.scope, below.scope, wanted) and _same_text(above, below)


def _same_text(above: Wording, below: Wording) -> bool:
    if len(below.content) >= _TELLING and above.content == below.content:
        return True
    shared = len(above.runs & below.runs)
    all_of_them = len(above.runs) + len(below.runs) - shared
    return 0 < LEAST * all_of_them <= shared and _decisive(above.text) == _decisive(below.text)


def _bits(mask: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _holds_for(above: str, below: str, wanted: str | None) -> bool:
    """Whether the scope above covers the one below, or all that is asked for."""
    return match_scope(above, below) in _COVERING or (wanted is not None and match_scope(above, wanted) in _COVERING)


def _decisive(text: str) -> Counter[str]:
    """Numbers and negations."""
    return Counter(_DECISIVE.findall(text.lower()))


def _plain(text: str) -> str:
    return _BLANK.sub(" ", normalize("NFKC", text).casefold()).strip()
