"""Difference of two texts: by lines, then by words (characters of Chinese and Japanese) within changed lines.

Uses rapidfuzz's edit script: two texts of 32,000 characters take at most .1 s and a few MB. difflib
needs the cube of the length for texts such as "x y x z x w".
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal, TypeAlias

from rapidfuzz.distance import LCSseq, Levenshtein

from skillbus.contracts.learner.versions import TextSpan

_EXACT_PAIRS: Final = 64_000_000
"""Bound on length × length for the longest common subsequence, which needs that many bits. Longer texts get an edit
script of Levenshtein, which needs little memory but may pair unlike lines.
"""
_SPANS: Final = 2_000
"""Largest number of spans that fits into a message together with two texts of 32,000 characters."""
_CHINESE: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_WORD: Final = re.compile(rf"[{_CHINESE}]|(?:(?![{_CHINESE}])\w)+|\n|[^\S\n]+|.", re.DOTALL)

_Kind: TypeAlias = Literal["same", "removed", "added"]
_Piece: TypeAlias = tuple[_Kind, str]


def diff_texts(before: str, after: str) -> tuple[TextSpan, ...]:
    """Return both texts as one row of spans: `before` is all but the added ones, `after` all but the removed ones."""
    by_line = _diff_tokens(_LINE.findall(before), _LINE.findall(after))
    by_word = _merge(_refine(by_line))
    for pieces in (by_word, by_line):
        if len(pieces) <= _SPANS:
            return tuple(TextSpan(kind=kind, text=text) for kind, text in pieces)
    return (TextSpan(kind="removed", text=before), TextSpan(kind="added", text=after))


def _diff_tokens(before: Sequence[str], after: Sequence[str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    distance = LCSseq if len(before) * len(after) <= _EXACT_PAIRS else Levenshtein
    for step in distance.opcodes(before, after):
        removed = "".join(before[step.src_start : step.src_end])
        if step.tag == "equal":
            pieces.append(("same", removed))
        else:
            pieces += [("removed", removed), ("added", "".join(after[step.dest_start : step.dest_end]))]
    return _merge(pieces)


def _refine(pieces: Sequence[_Piece]) -> Iterable[_Piece]:
    """Yield the pieces, with each removed one compared by words to the added one that follows it."""
    at = 0
    while at < len(pieces):
        kind, text = pieces[at]
        if kind == "removed" and at + 1 < len(pieces) and pieces[at + 1][0] == "added":
            yield from _diff_tokens(_WORD.findall(text), _WORD.findall(pieces[at + 1][1]))
            at += 2
        else:
            yield kind, text
            at += 1


def _merge(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Join neighbours of one kind and drop empty pieces; between two same pieces, removed text precedes added text."""
    merged: list[_Piece] = []
    for same, group in groupby((piece for piece in pieces if piece[1]), key=lambda piece: piece[0] == "same"):
        members = list(group)
        kinds: tuple[_Kind, ...] = ("same",) if same else ("removed", "added")
        joined = ((kind, "".join(text for its, text in members if its == kind)) for kind in kinds)
        merged += [piece for piece in joined if piece[1]]
    return merged
