"""Detection of the header of a log's lines (time, level, process, component) from the log's own first lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillbus.learning.logs.records.severity import LEVEL_WORDS
from skillbus.learning.logs.records.timestamps import TIME_PATTERN

_COVERAGE: Final = 0.8
"""Share of the lines in which a column must be of one kind."""
_MOST_COLUMNS: Final = 14
_MOST_WORDS: Final = 6
"""Most words before a time or a level."""
HEADER_CHARACTERS: Final = 512
"""Most characters of a line that are searched for its header."""
_BRACKETS: Final = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\((?:[^()]|\([^()]*\))*\)"
_IDS: Final = r"\[(?:[a-z]{2,8}-)?[0-9a-fA-F -]*\]"


class ColumnKind(StrEnum):
    """Kind of a column of the header."""

    TIME = "time"
    LEVEL = "level"
    SEPARATOR = "separator"
    COMPONENT = "component"
    """Name that ends with a colon: `sshd[24200]:`."""
    DOTTED = "dotted"
    """Name with dots: `nova.compute.manager`."""
    CONTEXT = "context"
    """Brackets with nothing but ids and hyphens: the context of a request. Some lines may lack it."""
    LABEL = "label"
    """All up to the first ` - ` or ` | `."""
    BRACKETS = "brackets"
    NUMBER = "number"
    WORD = "word"


_END: Final = r"(?=[\s|]|$)"
_NAME: Final = r"[\w$./@\\#*-]*[A-Za-z_][\w$./@\\#*-]*"
_PATTERNS: Final[dict[ColumnKind, str]] = {
    ColumnKind.TIME: rf"[\[(<]?{TIME_PATTERN}(?:[\])>:,]+{_END}|(?=[\s|,\]]|$))",
    ColumnKind.LEVEL: rf"(?:[\[<(] ?(?:{LEVEL_WORDS}) ?[\]>)]:?|(?:{LEVEL_WORDS}):?){_END}",
    ColumnKind.SEPARATOR: rf"(?:\|{{1,2}}|(?:-{{1,3}}|–|—|:{{1,3}}|>{{1,3}}|=>){_END})",
    ColumnKind.LABEL: rf"(?:(?![-|] )(?:{_BRACKETS}|[^\s|\[\]]+(?:\[[^\[\]\s]*\])?) +){{1,5}}[-|] ",
    ColumnKind.COMPONENT: rf"(?:--? )?{_NAME}(?:\([^()\s]*\))?(?:\[[^\]\s]*\])?:(?:\d+\])?{_END}",
    ColumnKind.DOTTED: rf"[A-Za-z_$][\w$-]*(?:[./][\w$-]+)+(?:\[[^\]\s]*\])?{_END}",
    ColumnKind.CONTEXT: rf"{_IDS}{_END}",
    ColumnKind.BRACKETS: rf"(?:{_BRACKETS}):?{_END}",
    ColumnKind.NUMBER: rf"[-+]?(?:0x)?\d[\d.]*{_END}",
    ColumnKind.WORD: r"[^\s|]+",
}
_MATCHERS: Final = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
_GAP: Final = re.compile(r"[\s,]*")
TIME_NEAR_START: Final = re.compile(rf"(?:[^\s|]+[\s|]+){{0,4}}?{_PATTERNS[ColumnKind.TIME]}")
_LEVEL_AHEAD: Final = re.compile(rf"(?:\S+ +){{0,{_MOST_WORDS}}}?{_PATTERNS[ColumnKind.LEVEL]}")


@dataclass(frozen=True)
class HeaderLayout:
    """Columns of the header of a file's lines, as one regular expression."""

    columns: tuple[ColumnKind, ...]
    pattern: re.Pattern[str] | None
    """Matches the header of a line; None without columns. Groups, if there: `time`, `level`, `component`."""

    @property
    def timed(self) -> bool:
        """True if the header has a time."""
        return ColumnKind.TIME in self.columns

    @property
    def starts_records(self) -> bool:
        """True if the header has a time or a level, so that lines without it continue a record."""
        return self.timed or ColumnKind.LEVEL in self.columns


def detect_header(lines: Sequence[str]) -> HeaderLayout:
    """Detect the header that most of the first lines share."""
    sample = [line[:HEADER_CHARACTERS] for line in lines if line.strip() and not line[0].isspace()]
    timed = [line for line in sample if TIME_NEAR_START.match(line)]
    if len(timed) * 10 >= len(sample):
        sample = timed
    columns = _detect_columns(sample)
    return HeaderLayout(columns, _compile_columns(columns) if columns else None)


def _detect_columns(sample: Sequence[str]) -> tuple[ColumnKind, ...]:
    """Return the columns up to the last anchor: what stands behind belongs to the message."""
    columns: list[ColumnKind] = []
    pending: list[ColumnKind] = []
    cursors = [(line, 0) for line in sample]
    while cursors and len(columns) + len(pending) < _MOST_COLUMNS:
        kind = _select_column(cursors, (*columns, *pending), pending)
        if kind is None:
            break
        moved = [(line, end) for line, start in cursors if (end := _skip_column(kind, line, start)) is not None]
        pending.append(kind)
        if kind in _ANCHORS:
            columns += pending
            pending = []
        cursors = moved
    return tuple(columns)


_ANCHORS: Final = frozenset(ColumnKind) - {ColumnKind.BRACKETS, ColumnKind.NUMBER, ColumnKind.WORD}
_NAMES: Final = frozenset({ColumnKind.COMPONENT, ColumnKind.DOTTED, ColumnKind.LABEL})


def _select_column(
    cursors: Sequence[tuple[str, int]], before: Sequence[ColumnKind], pending: Sequence[ColumnKind]
) -> ColumnKind | None:
    """Return the kind of the next column, or None if the message begins."""
    named = not _NAMES.isdisjoint(before)
    shares = {
        kind: sum(1 for line, start in cursors if matcher.match(line, start)) / len(cursors)
        for kind, matcher in _MATCHERS.items()
    }
    level_ahead = sum(1 for line, start in cursors if _LEVEL_AHEAD.match(line, start)) / len(cursors) >= _COVERAGE
    level_missing = ColumnKind.LEVEL not in before
    for kind in (ColumnKind.TIME, ColumnKind.LEVEL, ColumnKind.SEPARATOR):
        if shares[kind] >= _COVERAGE and (kind is not ColumnKind.LEVEL or level_missing):
            return kind
    if before and before[-1] is not ColumnKind.CONTEXT and shares[ColumnKind.CONTEXT] >= _COVERAGE / 2:
        return ColumnKind.CONTEXT
    if not named and before and not (level_missing and level_ahead):
        for kind in (ColumnKind.LABEL, ColumnKind.COMPONENT, ColumnKind.DOTTED):
            if shares[kind] >= _COVERAGE:
                return kind
    if shares[ColumnKind.BRACKETS] >= _COVERAGE and not named:
        return ColumnKind.BRACKETS
    words = sum(1 for kind in pending if kind is not ColumnKind.BRACKETS)
    time_missing = ColumnKind.TIME not in before
    most = _MOST_WORDS if (level_missing and level_ahead) or time_missing else 3
    if words < most and (not named or (level_missing and level_ahead)):
        return ColumnKind.NUMBER if shares[ColumnKind.NUMBER] >= _COVERAGE else ColumnKind.WORD
    return None


def _skip_column(kind: ColumnKind, line: str, start: int) -> int | None:
    """Return where the next column starts, or None if the line has no such column."""
    found = _MATCHERS[kind].match(line, start)
    if found is None:
        return start if kind is ColumnKind.CONTEXT else None
    gap = _GAP.match(line, found.end())
    return gap.end() if gap else found.end()


def _compile_columns(columns: Sequence[ColumnKind]) -> re.Pattern[str]:
    """Return the pattern of a header. Columns that are no anchors match any word."""
    names: dict[int, str] = {}
    for group, kinds in (
        ("time", (ColumnKind.TIME,)),
        ("level", (ColumnKind.LEVEL,)),
        ("component", (ColumnKind.COMPONENT, ColumnKind.DOTTED, ColumnKind.LABEL, ColumnKind.BRACKETS)),
        ("component", (ColumnKind.WORD,)),
    ):
        column = next((columns.index(kind) for kind in kinds if kind in columns), None)
        if group in names.values():
            continue
        if column is not None:
            names[column] = group
    pieces = []
    for number, kind in enumerate(columns):
        pattern = _PATTERNS[ColumnKind.WORD if kind in (ColumnKind.NUMBER, ColumnKind.DOTTED) else kind]
        piece = f"(?P<{names[number]}>{pattern})" if number in names else f"(?:{pattern})"
        pieces.append(f"{piece}?" if kind is ColumnKind.CONTEXT else piece)
    return re.compile(r"\s*" + r"[\s,]*".join(pieces) + r"\s*")
