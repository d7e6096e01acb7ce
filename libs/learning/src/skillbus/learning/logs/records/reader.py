"""Records of a log: lines that a header starts, with the lines that continue them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from skillbus.learning.logs.records.header import (
    CONTINUES,
    HEADER_CHARACTERS,
    TIME_NEAR_START,
    HeaderLayout,
    detect_header,
)
from skillbus.learning.logs.records.severity import Severity, parse_level
from skillbus.learning.logs.records.structured import StructuredReader, detect_structure

SAMPLE_LINES: Final = 500
MOST_CONTINUED: Final = 50
"""Most continuation lines of a record that are kept."""
_MOST_MESSAGE: Final = 2_000


@dataclass(slots=True)
class LogRecord:
    """Record of a log."""

    line: int
    """Number of its first line, counted from 1."""
    text: str
    """The first line."""
    message: str
    time: str = ""
    level: Severity = Severity.UNKNOWN
    component: str = ""
    continued: list[str] = field(default_factory=list)
    """Lines that continue it, such as a stack trace."""


def read_records(lines: Iterable[str]) -> Iterator[LogRecord]:
    """Yield the records of a log. Memory is bounded by the first lines and one record."""
    source = iter(lines)
    sample = list(islice(source, SAMPLE_LINES))
    rest = chain(sample, source)
    structure = detect_structure(sample)
    if structure is not None:
        yield from _read_structured(rest, structure)
        return
    layout = detect_header(sample)
    record: LogRecord | None = None
    for number, raw in enumerate(rest, 1):
        line = raw.rstrip("\r\n")
        started = _start_record(number, line, layout)
        if started is not None:
            if record is not None:
                yield record
            record = started
        elif record is not None and len(record.continued) < MOST_CONTINUED and line.strip():
            record.continued.append(line)
    if record is not None:
        yield record


def _start_record(number: int, line: str, layout: HeaderLayout) -> LogRecord | None:
    """Return the record that the line starts, or None if it continues one."""
    if layout.pattern is not None and (found := layout.pattern.match(line, 0, HEADER_CHARACTERS)) is not None:
        groups = found.groupdict()
        return LogRecord(
            number,
            line,
            line[found.end() : found.end() + _MOST_MESSAGE],
            groups.get("time") or "",
            parse_level(groups.get("level") or ""),
            groups.get("component") or "",
        )
    if not line or line.isspace():
        return None
    timed = TIME_NEAR_START.match(line, 0, HEADER_CHARACTERS) if layout.timed else None
    if timed is not None:
        return LogRecord(number, line, line[timed.end() :][:_MOST_MESSAGE].strip(), timed[0])
    if layout.starts_records or (number > 1 and CONTINUES.match(line)):
        return None
    return LogRecord(number, line, line[:_MOST_MESSAGE])


def _read_structured(lines: Iterable[str], structure: StructuredReader) -> Iterator[LogRecord]:
    """Yield the records of a log of which each line holds fields with names."""
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if line:
            fields = structure(line)
            yield LogRecord(
                number, line, fields.message[:_MOST_MESSAGE], fields.time, parse_level(fields.level), fields.component
            )
