"""Learning from a log: its templates, incidents and configuration facts."""

from collections.abc import Iterable
from dataclasses import dataclass

from skillbus.contracts.learner.learned import EvidenceQuote, LearnedItem
from skillbus.learning.logs.facts import FactCollector
from skillbus.learning.logs.incidents import find_incidents
from skillbus.learning.logs.items import quote_record, write_fact, write_incident
from skillbus.learning.logs.records.reader import read_records
from skillbus.learning.logs.records.severity import Severity
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.logs.statistics import LogStatistics, TemplateStatistics
from skillbus.learning.redaction import redact_text


@dataclass(frozen=True, slots=True)
class LogTemplate:
    """Template of a log, redacted."""

    text: str
    count: int
    level: Severity
    first_line: int
    """Number of the first line with it, counted from 1."""
    quotes: tuple[EvidenceQuote, ...]
    """Samples without the names of people and hosts, as items quote them."""


@dataclass(frozen=True, slots=True)
class LogFindings:
    """Templates and items of a log."""

    records: int
    templates: tuple[LogTemplate, ...]
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


def _describe_template(file: str, text: str, statistics: TemplateStatistics) -> LogTemplate:
    samples = statistics.samples or ([statistics.first] if statistics.first else [])
    return LogTemplate(
        redact_text(text),
        statistics.count,
        statistics.severity,
        statistics.first.line if statistics.first else 0,
        tuple(quote_record(file, record, template=text) for record in samples),
    )
