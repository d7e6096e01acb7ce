"""Detection of the header of a log's lines (time, level, process, component) from the log's own first lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
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
_MIXED_SHARE: Final = 0.2
CONTINUES: Final = re.compile(
    r"\s|at [\w$.]+[(.]|Caused by: |Traceback \(|[\w$.]+(?:Exception|Error)\b|\.{3} \d+ more|[})\]]+\s*$"
)
"""Lines that continue a record in any log: indented ones and the parts of stack traces."""
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
_NAME: Final = r"(?=[\w$./@\\#*-]*?[A-Za-z_])[\w$./@\\#*-]++"
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
    mixed: bool
    """True if many lines that are no continuations lack the header: they are records of their own."""
    pattern: re.Pattern[str] | None
    """Matches the header of a line; None without columns. Groups, if there: `time`, `level`, `component`."""

    @property
    def timed(self) -> bool:
        """True if the header has a time."""
        return ColumnKind.TIME in self.columns

    @property
    def starts_records(self) -> bool:
        """True if lines without the header continue a record: it has a time or a level, and few lack it."""
        return (self.timed or ColumnKind.LEVEL in self.columns) and not self.mixed


def detect_header(lines: Sequence[str]) -> HeaderLayout:
    """Detect the header that most of the first lines share."""
    sample = [line[:HEADER_CHARACTERS] for line in lines if line.strip() and not line[0].isspace()]
    timed = [line for line in sample if TIME_NEAR_START.match(line)]
    if len(timed) * 10 >= len(sample):
        sample = timed
    columns = _detect_columns(sample)
    pattern = _compile_columns(columns) if columns else None
    own = [line for line, after in zip_longest(lines, lines[1:], fillvalue="") if _stands_alone(line, after)]
    bare = sum(1 for line in own if pattern is None or not _has_header(line, pattern))
    return HeaderLayout(columns, bare > len(own) * _MIXED_SHARE, pattern)


def _stands_alone(line: str, after: str) -> bool:
    """Return whether a line is neither a continuation nor the head of one."""
    return bool(line.strip()) and not CONTINUES.match(line) and not (after.strip() and CONTINUES.match(after))


def _has_header(line: str, pattern: re.Pattern[str]) -> bool:
    header = pattern.match(line, 0, HEADER_CHARACTERS) or TIME_NEAR_START.match(line, 0, HEADER_CHARACTERS)
    return header is not None


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
    shares = {kind: _measure_share(matcher, cursors) for kind, matcher in _MATCHERS.items()}
    level_missing, time_missing = ColumnKind.LEVEL not in before, ColumnKind.TIME not in before
    level_ahead = level_missing and _measure_share(_LEVEL_AHEAD, cursors) >= _COVERAGE
    time_ahead = time_missing and _measure_share(TIME_NEAR_START, cursors) >= _COVERAGE
    last = before[-1] if before else None
    begins_name = not named and before != () and not level_ahead
    allowed = {
        ColumnKind.TIME: True,
        ColumnKind.LEVEL: level_missing,
        ColumnKind.SEPARATOR: True,
        ColumnKind.CONTEXT: last not in {None, ColumnKind.CONTEXT},
        ColumnKind.LABEL: begins_name,
        ColumnKind.COMPONENT: begins_name or last is ColumnKind.DOTTED,
        ColumnKind.DOTTED: begins_name,
        ColumnKind.BRACKETS: not named,
    }
    for kind, allows in allowed.items():
        if allows and shares[kind] >= (_COVERAGE / 2 if kind is ColumnKind.CONTEXT else _COVERAGE):
            return kind
    words = sum(1 for kind in pending if kind is not ColumnKind.BRACKETS)
    if words < (_MOST_WORDS if level_ahead or time_missing else 3) and (not named or level_ahead or time_ahead):
        return ColumnKind.NUMBER if shares[ColumnKind.NUMBER] >= _COVERAGE else ColumnKind.WORD
    return None


def _measure_share(matcher: re.Pattern[str], cursors: Sequence[tuple[str, int]]) -> float:
    """Return the share of the lines that match at their places."""
    return sum(1 for line, start in cursors if matcher.match(line, start)) / len(cursors)


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
