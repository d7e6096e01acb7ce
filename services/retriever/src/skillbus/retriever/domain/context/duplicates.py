"""Detection of items that say much the same, so that one of them is enough in a context.

Similar texts are not always the same rule: two items that differ in a number or in a `not` are both wanted, and the
same sentence about another module is another rule. So two items are alike when

- their texts are the same apart from case, width, blanks and punctuation; or at least 0.8 of the three-character runs
  of title and content (Jaccard) are the same, and so are the numbers and the negations;
- and the item above applies wherever the item below does.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final
from unicodedata import normalize

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.scope import ScopeMatch, match_scope

MIN_JACCARD: Final = 0.8
"""Jaccard index from which on texts are alike."""
_RUN: Final = 3
_MIN_SHARED_KEYS: Final = 0.2
"""Share of common keys from which on the runs of two texts are compared. An index of 0.8 comes from every 27th
character being another, which leaves a share of some 0.35."""
_CLAUSE: Final = 10
"""Length of a word from which on it is a Chinese clause, which is a key by itself."""
_TELLING: Final = 16
"""Characters from which on a content says by itself what it is about. A shorter one needs its title: `30 s`."""
_BLANK: Final = re.compile(r"[\W_]+")
_DECISIVE: Final = re.compile(
    r"\d+(?:[.,:]\d+)*|\b(?:not?|never|none|nor|neither|without|cannot|except|unless|disabled?|den(?:y|ied))\b"
    r"|n['’]t\b|[不无非未勿否禁莫没除]"
)
_COVERING: Final = frozenset({ScopeMatch.EXACT, ScopeMatch.PATTERN, ScopeMatch.PARENT, ScopeMatch.GENERAL})


@dataclass(frozen=True)
class Wording:
    """Texts of an item in the forms that are compared. Made by `compute_wording`."""

    scope: str
    content: str
    """Plain: letters and digits of one case and width, single blanks."""
    plain: str
    """Title and content, plain."""
    text: str
    """Title and content, unchanged."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Pairs of words, and clauses: texts that may be alike share some."""
        words = self.plain.split()
        pairs = map(" ".join, pairwise(words))
        return frozenset((*pairs, *(word for word in words if len(word) >= _CLAUSE)))

    @cached_property
    def runs(self) -> frozenset[str]:
        """Runs of three characters; they cost some ten times the keys."""
        return frozenset(self.plain[at : at + _RUN] for at in range(len(self.plain) - _RUN + 1))


def compute_wording(item: KnowledgeItem) -> Wording:
    content = _plain(item.content)
    return Wording(item.scope, content, f"{_plain(item.title)} {content}", f"{item.title}\n{item.content}")


class DuplicateFilter:
    """Wordings of the items of a context so far. A lookup costs about the same, however many there are."""

    def __init__(self, scope: str | None) -> None:
        """`scope` is that of the request."""
        self._scope = scope
        self._wordings: list[Wording] = []
        self._places = defaultdict[str, list[int]](list)
        """Positions of the wordings that have a key, or that content."""

    def add_wording(self, wording: Wording) -> None:
        for key in {wording.content, *wording.keys}:
            self._places[key].append(len(self._wordings))
        self._wordings.append(wording)

    def has_similar(self, wording: Wording) -> bool:
        """Return whether an item of the context is alike."""
        shared = Counter(place for key in wording.keys for place in self._places.get(key, ()))
        likely = set(self._places.get(wording.content, ()))
        for place, count in shared.items():
            if count >= _MIN_SHARED_KEYS * (len(wording.keys) + len(self._wordings[place].keys) - count):
                likely.add(place)
        return any(are_alike(self._wordings[place], wording, self._scope) for place in likely)


def are_alike(above: Wording, below: Wording, scope: str | None) -> bool:
    """Return whether the item below can be left out next to the item above. `scope` is that of the request."""
    covers = match_scope(above.scope, below.scope) in _COVERING
    if not covers and (scope is None or match_scope(above.scope, scope) not in _COVERING):
        return False
    if len(below.content) >= _TELLING and above.content == below.content:
        return True
    shared = len(above.runs & below.runs)
    union = len(above.runs) + len(below.runs) - shared
    return 0 < MIN_JACCARD * union <= shared and _decisive(above.text) == _decisive(below.text)


def _decisive(text: str) -> Counter[str]:
    """Count the numbers and negations of a text."""
    return Counter(_DECISIVE.findall(text.lower()))


def _plain(text: str) -> str:
    return _BLANK.sub(" ", normalize("NFKC", text).casefold()).strip()
