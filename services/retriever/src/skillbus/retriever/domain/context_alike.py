"""Which items say much the same, so that one of them is enough in a context.

Likeness of texts is not likeness of rules: of two that differ in a number or in a `not`, both are wanted. Nor is the
same sentence about another module the same. So two items are alike when

- their texts are: the same apart from case, width, blanks and punctuation; or of title and content at least 0.8 of the
  runs of three characters (Jaccard) are the same, and so are the numbers and the negations;
- and what the one above says holds wherever the one below does.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final
from unicodedata import normalize

from skillbus.contracts.knowledge import KnowledgeItem
from skillbus.contracts.scope import ScopeMatch, match

LEAST: Final = 0.8
"""Jaccard index from which on texts are alike."""
_TELLING: Final = 16
"""Characters from which on a content says by itself what it is about. Below it needs its title: `30 s`."""
_RUN: Final = 3
_SAMPLE: Final = 48
"""At most so many runs."""
_SAMPLE_SHARED: Final = 0.6
"""Of the sample. Of texts with an index of 0.8 some 0.89 are: fewer than 0.6 of 48 by a chance of 10^-8."""
_BLANK: Final = re.compile(r"[\W_]+")
_DECISIVE: Final = re.compile(
    r"\d+(?:[.,:]\d+)*|\b(?:not?|never|none|nor|neither|without|cannot|except|unless|disabled?|den(?:y|ied))\b"
    r"|n['’]t\b|[不无非未勿否禁莫]|没|除"
)
_COVERING: Final = frozenset({ScopeMatch.EXACT, ScopeMatch.PATTERN, ScopeMatch.PARENT, ScopeMatch.GENERAL})


@dataclass(frozen=True, slots=True)
class Wording:
    """What of an item is compared. Made by `wording_of`."""

    scope: str
    content: str
    """Plain: letters and digits of one case and width, single blanks."""
    runs: frozenset[str]
    """Of three characters of title and content."""
    sample: frozenset[str]
    """Some of the runs, from all over the text."""
    text: str
    """As it is."""


def wording_of(item: KnowledgeItem) -> Wording:
    """The wording of an item: some 100 ns a character."""
    content = _plain(item.content)
    text = f"{_plain(item.title)} {content}"
    runs = [text[at : at + _RUN] for at in range(len(text) - _RUN + 1)]
    sample = runs[:: len(runs) // _SAMPLE + 1]
    return Wording(item.scope, content, frozenset(runs), frozenset(sample), f"{item.title}\n{item.content}")


def alike(above: Wording, below: Wording, wanted: str | None) -> bool:
    """Whether the one below can be left out beside the one above. `wanted` is the scope that is asked for, if any."""
    return _same_text(above, below) and _holds_for(above.scope, below.scope, wanted)


def _same_text(above: Wording, below: Wording) -> bool:
    if len(below.content) >= _TELLING and above.content == below.content:
        return True
    smaller, larger = sorted((len(above.runs), len(below.runs)))
    if not smaller or smaller < LEAST * larger:
        return False
    # Most pairs are told apart by a sample: 1 µs where comparing all runs takes 10.
    if len(above.runs & below.sample) < _SAMPLE_SHARED * len(below.sample):
        return False
    shared = len(above.runs & below.runs)
    return shared >= LEAST * (smaller + larger - shared) and _decisive(above.text) == _decisive(below.text)


def _holds_for(above: str, below: str, wanted: str | None) -> bool:
    """Whether the scope above covers the one below, or all that is asked for."""
    return match(above, below) in _COVERING or (wanted is not None and match(above, wanted) in _COVERING)


def _decisive(text: str) -> Counter[str]:
    """Numbers and negations."""
    return Counter(_DECISIVE.findall(text.lower()))


def _plain(text: str) -> str:
    return _BLANK.sub(" ", normalize("NFKC", text).casefold()).strip()
