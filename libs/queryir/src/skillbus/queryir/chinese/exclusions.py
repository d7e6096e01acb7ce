"""Takes out of a command what it leaves out: 除…以外, …以外的, 不要关X其他都…, 只留X."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.queryir.chinese.lexicon import SenseKind
from skillbus.queryir.chinese.roles import find_acting_verbs
from skillbus.queryir.chinese.segmentation import ChineseWord

_MOST_CUTS: Final = 20
"""More exclusions in one command are no language, and would take time."""
_KEPT: Final = (SenseKind.KEEP, SenseKind.NOT, SenseKind.LEAVE)


@dataclass
class ExclusionReading:
    """Words of a command, parted."""

    words: list[ChineseWord]
    excluded: list[ChineseWord] = field(default_factory=list)
    found: bool = False
    cuts: int = 0
    keeps: bool = False
    """The command says what stays on: 只留玄关灯."""


def take_exclusions(words: Sequence[ChineseWord]) -> ExclusionReading:
    """Part the words of a command into those of what it means and those of what it leaves out."""
    reading = ExclusionReading(list(words))
    _take_kept(reading)
    _take_opened(reading)
    _take_closed(reading)
    return reading


def _cut(reading: ExclusionReading, start: int, end: int) -> None:
    reading.excluded += reading.words[start:end]
    if 0 < end < len(reading.words) and reading.words[end].plays(SenseKind.POSSESSIVE):
        end += 1  # 卧室以外的
    del reading.words[start:end]
    reading.found = True
    reading.cuts += 1


def _find(words: Sequence[ChineseWord], start: int, *kinds: SenseKind) -> int | None:
    return next((index for index in range(start, len(words)) if words[index].plays(*kinds)), None)


def _take_kept(reading: ExclusionReading) -> None:
    """Take clauses with 留 or 不要, up to 其他."""
    index = _find(reading.words, 0, *_KEPT)
    while index is not None and reading.cuts < _MOST_CUTS:
        words = reading.words
        keeps = words[index].plays(SenseKind.KEEP)
        start = index
        while start > 0 and not words[start - 1].plays(SenseKind.PAUSE, SenseKind.OTHER):
            start -= 1
        end = _find(words, index, SenseKind.PAUSE, SenseKind.OTHER)
        end = len(words) if end is None else end
        if start > 0 and words[start - 1].plays(SenseKind.OTHER):
            start = index
        remains = [*words[:start], *words[end:]]
        if not keeps and not find_acting_verbs(remains):
            return
        reading.keeps = reading.keeps or keeps
        _cut(reading, start, end)
        index = _find(reading.words, start, *_KEPT)


def _take_opened(reading: ExclusionReading) -> None:
    index = _find(reading.words, 0, SenseKind.EXCEPT_OPEN)
    while index is not None and reading.cuts < _MOST_CUTS:
        words = reading.words
        end = _find_end(words, index + 1)
        if end == index + 1 or all(word.plays(SenseKind.PAUSE) for word in words[index + 1 : end]):
            start = index
            while start > 0 and not words[start - 1].plays(SenseKind.PAUSE):
                start -= 1
            _cut(reading, start, index + 1)  # 厨房的不算
            index = _find(reading.words, start, SenseKind.EXCEPT_OPEN)
            continue
        closed = end < len(words) and words[end].plays(SenseKind.EXCEPT_CLOSE)
        _cut(reading, index, end + 1 if closed else end)
        index = _find(reading.words, index, SenseKind.EXCEPT_OPEN)


def _find_end(words: Sequence[ChineseWord], start: int) -> int:
    """Return the end of an exclusion: 以外, else 其他 before the next verb, else 都, 所有, a verb or a pause."""
    acting = next((index for index in find_acting_verbs(words) if index >= start), len(words))
    for kind in (SenseKind.EXCEPT_CLOSE, SenseKind.OTHER):
        end = _find(words, start, kind)
        if end is not None and end <= acting:
            return end
    end = _find(words, start, SenseKind.PAUSE, SenseKind.ALL, SenseKind.DISTRIBUTIVE, SenseKind.OBJECT)
    return acting if end is None else min(acting, end)


def _take_closed(reading: ExclusionReading) -> None:
    """Take what stands before 以外 without 除."""
    index = _find(reading.words, 0, SenseKind.EXCEPT_CLOSE)
    while index is not None and reading.cuts < _MOST_CUTS:
        words = reading.words
        acting = set(find_acting_verbs(words))
        start = index
        while (
            start > 0
            and start - 1 not in acting
            and not words[start - 1].plays(SenseKind.PAUSE, SenseKind.OBJECT, SenseKind.ALL, SenseKind.DISTRIBUTIVE)
        ):
            start -= 1
        if start == index:
            return
        _cut(reading, start, index + 1)
        index = _find(reading.words, start, SenseKind.EXCEPT_CLOSE)
