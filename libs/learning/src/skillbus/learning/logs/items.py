"""Items about incidents and settings of a log."""

import re
from collections.abc import Iterator
from typing import Final

from skillbus.common.prompt_injection import INSTRUCTIONS
from skillbus.contracts.learner.learned import (
    MAX_EVIDENCE,
    QUOTE_CHARACTERS,
    EvidenceQuote,
    LearnedItem,
    LearnedKind,
    LearnedStatement,
)
from skillbus.learning.confidence import get_confidence
from skillbus.learning.logs.facts import SettingFact
from skillbus.learning.logs.failures import FailureClass, classify_failure
from skillbus.learning.logs.incidents import LogIncident
from skillbus.learning.logs.records.components import write_scope
from skillbus.learning.logs.records.reader import LogRecord
from skillbus.learning.logs.statistics import TemplateStatistics
from skillbus.learning.logs.templates.masking import VALUE
from skillbus.learning.redaction import redact_path, redact_text
from skillbus.learning.suspicion import scan_learned
from skillbus.learning.texts import shorten_text

_TITLE_CHARACTERS: Final = 120
_SUBJECT_CHARACTERS: Final = 290
_TEMPLATE_CHARACTERS: Final = 300
_MOST_TEMPLATES: Final = 8
_QUOTES_EACH: Final = 3
_WORD: Final = re.compile(r"(?<![\w.@<-])[\w.@-]+(?![\w>])")
_PLAIN_VALUE: Final = re.compile(
    r"(?:0x)?[\da-fA-F-]*\d[\da-fA-F-]*|[-+]?\d+(?:\.\d+)?[A-Za-z]{0,2}|[\W\d_]*[^\W\d_]?[\W\d_]*"
)
"""Number, hexadecimal number or single letter. Any other word in the place of a value may name a person or host."""
_LEAST_QUOTE: Final = 12
_NUMBER: Final = re.compile(r"\d+")
_CAUSE: Final = re.compile(r"\s*(?:Caused by: )?[\w.$]+(?:Error|Exception)\b")


def write_incident(file: str, incident: LogIncident) -> LearnedItem:
    """Return the item about an incident."""
    texts = [redact_text(text)[:_TEMPLATE_CHARACTERS] for text in incident.templates]
    subject = redact_text(incident.subject)
    failure = classify_failure(" ".join(incident.templates))
    severity = incident.severity.name.lower()
    component = incident.component
    evidence = tuple(_iterate_quotes(file, incident))[:MAX_EVIDENCE]
    content = "\n".join(_write_lines(incident, texts, failure, severity))
    return LearnedItem(
        kind=LearnedKind.INCIDENT,
        type=failure.type,
        title=shorten_text(f"{failure.phrase}{f' in {component}' if component else ''}: {texts[0]}", _TITLE_CHARACTERS),
        content=shorten_text(content, 1_900),
        scope=write_scope(component),
        tags=("log", severity, failure.tag),
        statement=LearnedStatement(
            subject=shorten_text(subject, _SUBJECT_CHARACTERS), predicate="is_logged_as", value=severity
        ),
        evidence=evidence,
        confidence=get_confidence(incident.records),
        seen=incident.records,
        addresses_assistant=_addresses_assistant(content, evidence),
    )


def write_fact(file: str, fact: SettingFact) -> LearnedItem:
    """Return the item about a setting with one stable value."""
    component = fact.component
    name, value = redact_text(fact.name), redact_text(fact.value)
    owner = f" of {component}" if component else ""
    content = f"The log shows `{name}={value}`{owner} in {fact.count} records, and no other value."
    quote = quote_record(file, fact.first, around=f"{fact.name}")
    return LearnedItem(
        kind=LearnedKind.CONFIG,
        type="project_config",
        title=shorten_text(f"{name}={value}{owner}", _TITLE_CHARACTERS),
        content=content,
        scope=write_scope(component),
        tags=("log", "setting"),
        statement=LearnedStatement(
            subject=shorten_text(f"{component}:{name}".lstrip(":"), 290), predicate="is_set_to", value=value
        ),
        evidence=(quote,),
        confidence=get_confidence(fact.count),
        seen=fact.count,
        addresses_assistant=_addresses_assistant(content, (quote,)),
    )


def _write_lines(incident: LogIncident, texts: list[str], failure: FailureClass, severity: str) -> Iterator[str]:
    """Yield the lines of an item's content."""
    where = f" by {incident.component}" if incident.component else ""
    if len(texts) == 1:
        yield f"{failure.phrase}, logged{where} as {severity}:"
    else:
        yield f"{failure.phrase}: {len(texts)} messages that occur together, logged{where} as {severity}:"
    shown = list(zip(texts, incident.templates.values(), strict=True))[:_MOST_TEMPLATES]
    for text, statistics in shown:
        yield f"- `{text}`: {statistics.count} record{'s' if statistics.count > 1 else ''}"
    if len(texts) > len(shown):
        yield f"- and {len(texts) - len(shown)} more"
    addresses = set[str]().union(*(it.addresses for it in incident.templates.values()))
    if addresses:
        yield f"They name {len(addresses)} IP addresses." if len(addresses) > 1 else "They name one IP address."
    causes = dict.fromkeys(redact_text(cause) for it in incident.templates.values() for cause in _find_causes(it))
    for cause in list(causes)[:2]:
        yield f"Exception: {cause[:200]}"


def _find_causes(statistics: TemplateStatistics) -> Iterator[str]:
    """Yield the lines of stack traces that name the innermost exception."""
    for record in statistics.samples:
        named = [line.strip() for line in record.continued if _CAUSE.match(line)]
        if named:
            yield _NUMBER.sub(VALUE, named[-1].removeprefix("Caused by: "))


def _iterate_quotes(file: str, incident: LogIncident) -> Iterator[EvidenceQuote]:
    """Yield quotes of each template in turn."""
    for place in range(_QUOTES_EACH):
        for text, statistics in incident.templates.items():
            samples = statistics.samples or ([statistics.first] if statistics.first else [])
            if place < len(samples):
                yield quote_record(file, samples[place], template=text)


def quote_record(file: str, record: LogRecord, template: str = "", around: str = "") -> EvidenceQuote:
    """Return a literal quote of the redacted line: the message, or the longest part of it without names as values."""
    line = redact_text(record.text)
    start = line.find(redact_text(record.message)[:40]) if record.message else 0
    message = line[max(start, 0) :]
    if template:
        quote = _cut_names(message, template)
    else:
        place = max(message.find(around), 0)
        quote = message[place : place + QUOTE_CHARACTERS]
    return EvidenceQuote(file=redact_path(file)[:300], line=record.line, quote=quote.strip()[:QUOTE_CHARACTERS])


def _cut_names(message: str, template: str) -> str:
    """Return the message up to the first value that may be a name, or else the longest part without such values."""
    words = {word.strip(".-") for word in _WORD.findall(template)}
    parts, start = list[str](), 0
    for found in _WORD.finditer(message):
        if found[0].strip(".-") not in words and not _PLAIN_VALUE.fullmatch(found[0]):
            parts.append(message[start : found.start()])
            start = found.end()
    parts.append(message[start:])
    return parts[0] if len(parts[0].strip()) >= _LEAST_QUOTE else max(parts, key=lambda it: len(it.strip()))


def _addresses_assistant(content: str, evidence: tuple[EvidenceQuote, ...]) -> bool:
    found = scan_learned((content, *(it.quote for it in evidence)))
    return any(finding.code == INSTRUCTIONS for finding in found)
