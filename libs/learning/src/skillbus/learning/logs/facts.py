"""Configuration facts of a log: settings that a component names several times with one value."""

import re
from dataclasses import dataclass
from typing import Final

from skillbus.learning.logs.records.components import name_component
from skillbus.learning.logs.records.reader import LogRecord
from skillbus.learning.redaction import redact_text

_MOST_KEYS: Final = 5_000
_MOST_PAIRS: Final = 40
_PAIR: Final = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]{2,60})(?:=| = )(?![\s=])(\"[^\"]{1,100}\"|[^\s,;|\"'()\[\]{}<>=]{1,100})"
)
_WHOLE: Final = re.compile(r"([A-Za-z][\w.-]{2,60}): ([^\s,;|\"'()\[\]{}<>=]{1,100})\s*$")
_SETTING: Final = re.compile(r"[A-Za-z][a-z0-9]*(?:[A-Z]|[._-][A-Za-z])")
"""Name of more than one word: `maxRetries`, `log.level`, `pool_size`."""
_NAME_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# fmt: off
_CHANGING: Final = frozenset(
    [
        "id", "ids", "uid", "gid", "pid", "tid", "sid", "uuid", "guid", "seq", "sequence", "serial", "index",
        "offset", "position", "count", "counter", "num", "number", "total", "sum", "attempt", "attempts",
        "tries", "retried", "elapsed", "took", "duration", "latency", "time", "timestamp", "date", "ts",
        "start", "end", "begin", "finish", "now", "age", "uptime", "progress", "percent", "rate", "used",
        "free", "available", "usage", "remaining", "pending", "active", "current", "completed", "finished",
        "running", "allocated", "queued", "size", "length", "len", "bytes", "status", "state", "code",
        "result", "error", "reason", "epoch", "txid", "zxid", "cxid", "span", "trace", "request", "req",
        "session", "sess", "user", "username", "login", "email", "phone", "ip", "addr", "address", "host",
        "hostname", "rhost", "peer", "client", "remote", "src", "dst", "source", "dest", "port", "thread",
        "block", "node", "name",
    ]
)
# fmt: on
"""Words of names whose values belong to one event, thing or person."""
_LIMITS: Final = frozenset(
    ["max", "min", "maximum", "minimum", "limit", "default", "threshold", "timeout", "interval", "capacity", "pool"]
)
"""Words of names whose values are settings even if another word of the name is counted or timed."""
# fmt: off
_SECRET: Final = frozenset(
    [
        "secret", "password", "passwd", "pwd", "token", "cookie", "session", "auth", "credential",
        "credentials", "key", "user", "username",
    ]
)
# fmt: on
_OPAQUE: Final = re.compile(r"[0-9a-fA-F-]{12,}|0x[0-9a-fA-F]+|.*\d{6,}.*|\d{1,3}(?:\.\d{1,3}){3}.*|.*[a-z]+_\d+.*")


@dataclass(slots=True)
class SettingFact:
    """Setting of a component, with its only value."""

    component: str
    name: str
    value: str
    count: int
    first: LogRecord


class FactCollector:
    """Collector of settings. A setting with a second value is no fact any more."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], SettingFact | None] = {}

    def add_record(self, record: LogRecord) -> None:
        """Take the settings that a record names."""
        message = record.message
        if "=" in message:
            for name, value in _PAIR.findall(message)[:_MOST_PAIRS]:
                self._add_pair(record, name, value.strip('"'))
        elif ": " in message and (whole := _WHOLE.match(message)) is not None:
            self._add_pair(record, whole[1], whole[2])

    def select_facts(self, least: int, most: int) -> list[SettingFact]:
        """Return the facts with enough records whose names and values may be learned, those with most records first."""
        facts = [it for it in self._facts.values() if it is not None and it.count >= least and _is_learnable(it)]
        return sorted(facts, key=lambda it: (-it.count, it.component, it.name))[:most]

    def _add_pair(self, record: LogRecord, name: str, value: str) -> None:
        component = name_component(record.component)
        key = (component, name)
        fact = self._facts.get(key)
        if fact is not None:
            if fact.value == value:
                fact.count += 1
            else:
                self._facts[key] = None
        elif key not in self._facts and len(self._facts) < _MOST_KEYS and _SETTING.match(name):
            self._facts[key] = SettingFact(component, name, value, 1, record)


def _is_learnable(fact: SettingFact) -> bool:
    """Return whether the name is that of a setting, and the value is neither opaque, counted nor secret."""
    words = {word.lower() for word in _NAME_WORD.findall(fact.name)}
    if not words.isdisjoint(_SECRET) or _OPAQUE.fullmatch(fact.value) or fact.value in {"-", "null", "None", "0"}:
        return False
    if words.isdisjoint(_LIMITS):
        counted = fact.value[:1].isdigit() and any(word.endswith("s") for word in words)
        if counted or not words.isdisjoint(_CHANGING):
            return False
    text = f"{fact.name}={fact.value}"
    return redact_text(text) == text
