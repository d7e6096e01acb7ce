"""What differs between two texts: line by line, and within lines that differ word by word, or character of Chinese.

By the greedy algorithm of Myers (An O(ND) difference algorithm and its variations, 1986) under a bound on its steps:
difflib's worst case grows with the cube of the length, and these texts are whatever somebody wrote. Where the bound is
reached, what is left is shown as removed and added.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from skillbus.contracts.learner.versions import TextSpan

_STEPS: Final = 1_000_000
"""Of one pair of texts: half a second."""
_SPANS: Final = 2_000
"""So many fit a message beside two texts of 32,000 characters."""
_CHINESE: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_WORD: Final = re.compile(rf"[{_CHINESE}]|(?:(?![{_CHINESE}])\w)+|\n|[^\S\n]+|.", re.DOTALL)

_Kind: TypeAlias = Literal["same", "removed", "added"]
_Piece: TypeAlias = tuple[_Kind, str]


class _Run(NamedTuple):
    """As much of both as is the same from here on, after what is removed and added before it."""

    before: int
    after: int
    length: int


class _Steps:
    """How many are left."""

    def __init__(self, left: int) -> None:
        self.left = left


def spans(before: str, after: str) -> tuple[TextSpan, ...]:
    """Both texts as one row of spans: those not added make up `before`, those not removed `after`."""
    by_line = _pieces(_LINE.findall(before), _LINE.findall(after), steps := _Steps(_STEPS))
    by_word = _merged(_refined(by_line, steps))
    for pieces in (by_word, _merged(by_line)):
        if len(pieces) <= _SPANS:
            return tuple(TextSpan(kind=kind, text=text) for kind, text in pieces)
    return (TextSpan(kind="removed", text=before), TextSpan(kind="added", text=after))


def _refined(pieces: Sequence[_Piece], steps: _Steps) -> Iterable[_Piece]:
    """What is removed with what is added right behind it, word by word."""
    at = 0
    while at < len(pieces):
        kind, text = pieces[at]
        if kind == "removed" and at + 1 < len(pieces) and pieces[at + 1][0] == "added":
            yield from _pieces(_WORD.findall(text), _WORD.findall(pieces[at + 1][1]), steps)
            at += 2
        else:
            yield kind, text
            at += 1


def _pieces(before: Sequence[str], after: Sequence[str], steps: _Steps) -> list[_Piece]:
    """Same, removed and added texts in their order."""
    found: list[_Piece] = []
    at_before = at_after = 0
    for run in (*_runs(before, after, steps), _Run(len(before), len(after), 0)):
        same = "".join(before[run.before : run.before + run.length])
        removed, added = "".join(before[at_before : run.before]), "".join(after[at_after : run.after])
        said: tuple[_Piece, ...] = (("removed", removed), ("added", added), ("same", same))
        found += [piece for piece in said if piece[1]]
        at_before, at_after = run.before + run.length, run.after + run.length
    return found


def _runs(before: Sequence[str], after: Sequence[str], steps: _Steps) -> list[_Run]:
    """What is the same at both ends, and in between."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    inner = _shortest(before[head : len(before) - tail], after[head : len(after) - tail], steps)
    runs = [_Run(0, 0, head), *(_Run(run.before + head, run.after + head, run.length) for run in inner)]
    return [run for run in (*runs, _Run(len(before) - tail, len(after) - tail, tail)) if run.length]


def _shortest(before: Sequence[str], after: Sequence[str], steps: _Steps) -> list[_Run]:
    """The runs of a shortest edit script; none where the steps do not suffice."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(word, len(numbers)) for word in before]
    b = [numbers.setdefault(word, len(numbers)) for word in after]
    if not a or not b:
        return []
    middle = len(a) + len(b) + 1
    reach = [0] * (2 * middle + 1)
    """By diagonal: how far one gets in `a`."""
    trail: list[list[int]] = []
    for edits in range(len(a) + len(b) + 1):
        trail.append(reach[middle - edits - 1 : middle + edits + 2])
        if _advance(a, b, reach, edits, steps):
            return _back(trail, len(a), len(b))
        if steps.left <= 0:
            return []
    return []


def _advance(a: Sequence[int], b: Sequence[int], reach: list[int], edits: int, steps: _Steps) -> bool:
    """Go as far as so many edits reach; whether that is the end of both."""
    middle = len(reach) // 2
    end_a, end_b = len(a), len(b)
    for diagonal in range(-edits, edits + 1, 2):
        x = _start(reach, middle + diagonal, diagonal, edits)
        begin, y = x, x - diagonal
        while x < end_a and y < end_b and a[x] == b[y]:
            x += 1
            y += 1
        reach[middle + diagonal] = x
        steps.left -= x - begin + 1
        if x >= end_a and y >= end_b:
            return True
    return False


def _start(reach: Sequence[int], at: int, diagonal: int, edits: int) -> int:
    """Where one begins on a diagonal: a step down from the one above, or to the right from the one below."""
    down = diagonal == -edits or (diagonal != edits and reach[at - 1] < reach[at + 1])
    return reach[at + 1] if down else reach[at - 1] + 1


def _back(trail: Sequence[Sequence[int]], x: int, y: int) -> list[_Run]:
    """The runs of the way that led to the end, from its beginning."""
    runs: list[_Run] = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, diagonal = trail[edits], x - y
        at = diagonal + edits + 1
        if edits == 0:
            runs.append(_Run(0, 0, x))
            break
        down = diagonal == -edits or (diagonal != edits and reach[at - 1] < reach[at + 1])
        begin = reach[at + 1] if down else reach[at - 1] + 1
        runs.append(_Run(begin, begin - diagonal, x - begin))
        x, y = (begin, begin - diagonal - 1) if down else (begin - 1, begin - diagonal)
    return [run for run in reversed(runs) if run.length]


def _merged(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Neighbours of a kind as one; between two that are the same, what is removed stands before what is added."""
    found: list[_Piece] = []
    for same, run in groupby(pieces, key=lambda piece: piece[0] == "same"):
        of_run = list(run)
        kinds: tuple[_Kind, ...] = ("same",) if same else ("removed", "added")
        texts = ((kind, "".join(text for its, text in of_run if its == kind)) for kind in kinds)
        found += [piece for piece in texts if piece[1]]
    return found
