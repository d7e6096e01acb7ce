"""Counts, samples and times of the templates of a log."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from skillbus.learning.logs.records.components import name_component
from skillbus.learning.logs.records.reader import LogRecord
from skillbus.learning.logs.records.severity import Severity, judge_message
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.logs.templates.miner import OTHER, LogMiner

_SAMPLES: Final = 4
_COMPONENTS: Final = 8
_MOST_WINDOWS: Final = 20_000
_MOST_ADDRESSES: Final = 10_000
_CLOCK: Final = re.compile(r"(\d{1,2})[:.](\d{1,2})[:.](\d{1,2})")
_EPOCH: Final = re.compile(r"\[?(1\d{9})")
_ADDRESS: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_TRACE_WORDS: Final = ("req-", "race", "equest", "orrelation", "span", "TRACE", "REQUEST")
"""Parts of names of which a line with a trace has one: they are found faster than the pattern."""
_TRACE: Final = re.compile(
    r"\b(?:req-|(?:trace|request|correlation|span)[-_]?id[\"']?[=: ]+[\"']?)([0-9a-fA-F-]{8,})", re.IGNORECASE
)


@dataclass(slots=True)
class TemplateStatistics:
    """Counts of a template. What only severe records need is empty for others."""

    count: int = 0
    severity: Severity = Severity.UNKNOWN
    levelled: bool = False
    """True if a record has a level; else the severity comes from words of failure alone."""
    first: LogRecord | None = None
    last_line: int = 0
    last_time: str = ""
    samples: list[LogRecord] = field(default_factory=list)
    components: Counter[str] = field(default_factory=Counter)
    windows: set[int] = field(default_factory=set)
    traces: set[int] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)

    def add_counts(self, other: "TemplateStatistics") -> None:
        """Add the counts of the same template."""
        self.count += other.count
        self.severity = max(self.severity, other.severity)
        self.levelled = self.levelled or other.levelled
        if self.first is None or (other.first is not None and other.first.line < self.first.line):
            self.first = other.first
        if other.last_line > self.last_line:
            self.last_line, self.last_time = other.last_line, other.last_time
        self.samples = sorted([*self.samples, *other.samples], key=lambda it: it.line)[:_SAMPLES]
        self.components += other.components
        self.windows |= other.windows
        self.traces |= other.traces
        self.addresses |= other.addresses


class LogStatistics:
    """Statistics of a log's templates while its records are read."""

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._miner = LogMiner(settings.max_patterns)
        self._by_number: dict[int, TemplateStatistics] = {}
        self._window = 0
        self._time = ""
        self._windows: set[int] = set()
        self.records = 0

    def add_record(self, record: LogRecord) -> None:
        """Count a record."""
        self.records += 1
        number = self._miner.add_message(record.message)
        self._move_window(record)
        statistics = self._by_number.get(number)
        if statistics is None:
            if len(self._by_number) > 2 * self._settings.max_patterns:
                self._join_numbers()
            statistics = self._by_number.setdefault(number, TemplateStatistics(first=record))
            statistics.severity = record.level or judge_message(record.message)
        statistics.count += 1
        statistics.last_line, statistics.last_time = record.line, record.time
        if record.level:
            statistics.levelled = True
            statistics.severity = max(statistics.severity, record.level)
        if statistics.severity >= Severity.WARNING:
            self._add_severe(statistics, record)

    def build_statistics(self) -> tuple[dict[str, TemplateStatistics], int]:
        """Return the statistics by template, and the number of time windows that have records."""
        templates = self._miner.build_templates()
        self._join_numbers()
        found = {templates[number]: it for number, it in self._by_number.items() if number in templates}
        return found, len(self._windows)

    def _add_severe(self, statistics: TemplateStatistics, record: LogRecord) -> None:
        """Keep when and where a severe record occurred."""
        if len(statistics.samples) < _SAMPLES:
            statistics.samples.append(record)
        component = name_component(record.component)
        if component in statistics.components or len(statistics.components) < _COMPONENTS:
            statistics.components[component] += 1
        if len(statistics.windows) < _MOST_WINDOWS:
            statistics.windows.add(self._window)
        if len(statistics.addresses) < _MOST_ADDRESSES:
            statistics.addresses.update(_ADDRESS.findall(record.message))
        if len(statistics.traces) < _MOST_WINDOWS and any(word in record.text for word in _TRACE_WORDS):
            statistics.traces.update(hash(trace) for trace in _TRACE.findall(record.text)[:1])

    def _move_window(self, record: LogRecord) -> None:
        """Set the window of the record: its time to the second, or its place in a log without times."""
        time = record.time
        if not time:
            self._window = self.records // self._settings.window_records
        elif time == self._time:
            return
        else:
            self._time = time
            self._window = self._number_window(time)
        if len(self._windows) < _MOST_WINDOWS * 10:
            self._windows.add(self._window)

    def _number_window(self, time: str) -> int:
        length = self._settings.window_seconds
        if (clock := _CLOCK.search(time)) is not None:
            seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3])
            return hash((time[: clock.start()], seconds // length))
        if (epoch := _EPOCH.match(time)) is not None:
            return int(epoch[1]) // length
        return hash(time)

    def _join_numbers(self) -> None:
        """Join the statistics of numbers that were merged, and drop those of forgotten templates."""
        joined = defaultdict[int, TemplateStatistics](TemplateStatistics)
        for number, statistics in self._by_number.items():
            target = self._miner.resolve_number(number)
            if target != OTHER:
                joined[target].add_counts(statistics)
        self._by_number = dict(joined)
