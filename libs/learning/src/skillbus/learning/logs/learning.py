"""Learning from a log: its templates, incidents and configuration facts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.learner.learned import LearnedItem, LearnedTemplate, LogLevel
from skillbus.learning.logs.facts import FactCollector
from skillbus.learning.logs.incidents import find_incidents
from skillbus.learning.logs.items import quote_record, write_fact, write_incident
from skillbus.learning.logs.records.reader import read_records
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.logs.statistics import LogStatistics, TemplateStatistics
from skillbus.learning.redaction import redact_path, redact_text

_TEXT_CHARACTERS: Final = 1_000
_TIME_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class LogFindings:
    """Templates and items of a log."""

    records: int
    templates: tuple[LearnedTemplate, ...]
    """Most frequent first."""
    items: tuple[LearnedItem, ...]
    """Incidents by score, then configuration facts."""


def learn_from_log(file: str, lines: Iterable[str], settings: LogSettings) -> LogFindings:
    """Return what the lines of a log show.

    Memory is bounded by the number of different masked messages, whatever the length of the log.
    """
    statistics, facts = LogStatistics(settings), FactCollector()
    for record in read_records(lines):
        statistics.add_record(record)
        facts.add_record(record)
    by_template, windows = statistics.build_statistics()
    incidents = find_incidents(by_template, windows, settings)
    items = [write_incident(file, incident) for incident in incidents]
    items += [write_fact(file, fact) for fact in facts.select_facts(settings.min_fact_records, settings.max_facts)]
    ordered = sorted(by_template.items(), key=lambda it: (-it[1].count, it[0]))
    return LogFindings(
        statistics.records, tuple(_describe_template(file, text, it) for text, it in ordered), tuple(items)
    )


def _describe_template(file: str, text: str, statistics: TemplateStatistics) -> LearnedTemplate:
    """Return a template as reports show it. Its samples have no names of people and hosts, as those of items."""
    first = statistics.first
    samples = statistics.samples or ([first] if first else [])
    return LearnedTemplate(
        file=redact_path(file)[:300],
        text=redact_text(text)[:_TEXT_CHARACTERS],
        level=LogLevel(statistics.severity.name.lower()),
        count=statistics.count,
        first_line=first.line if first else 0,
        last_line=statistics.last_line,
        first_time=_show_time(first.time if first else ""),
        last_time=_show_time(statistics.last_time),
        evidence=tuple(quote_record(file, record, template=text) for record in samples),
    )


def _show_time(time: str) -> str:
    return redact_text(time.strip(" []")[:_TIME_CHARACTERS])
