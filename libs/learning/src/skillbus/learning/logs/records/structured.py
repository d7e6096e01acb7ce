"""Logs whose lines hold fields with names: JSON objects, or key=value pairs with a message among them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SHARE: Final = 0.8
_PAIR: Final = re.compile(r"([A-Za-z_][\w.@-]*)=(\"(?:[^\"\\]|\\.)*\"|\S*)")
_LOGFMT: Final = re.compile(r"(?=.*\b(?:msg|message)=)(?=.*\b(?:level|lvl|severity|time|ts)=)[\w.@-]+=")
_MESSAGE: Final = ("message", "msg", "event", "log", "text", "short_message", "body")
_LEVEL: Final = ("level", "severity", "lvl", "loglevel", "levelname", "log.level", "priority", "severity_text")
_TIME: Final = ("timestamp", "time", "ts", "@timestamp", "datetime", "date", "t")
_COMPONENT: Final = ("logger", "component", "logger_name", "name", "service", "module", "caller", "app")


@dataclass(frozen=True, slots=True)
class LineFields:
    """Fields of a line that every log has in some form."""

    message: str
    time: str = ""
    level: str = ""
    component: str = ""


StructuredReader = Callable[[str], LineFields]


def detect_structure(sample: Sequence[str]) -> StructuredReader | None:
    """Return the reader of the lines, or None if they are text."""
    lines = [line.strip() for line in sample if line.strip()]
    for reader, fits in ((read_json_line, _is_json), (read_pairs_line, _is_pairs)):
        if lines and sum(1 for line in lines if fits(line)) >= len(lines) * _SHARE:
            return reader
    return None


def read_json_line(line: str) -> LineFields:
    """Read the fields of a JSON object. A line that is none is a message."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return LineFields(line)
    if not isinstance(value, dict):
        return LineFields(line)
    return _select_fields({str(key).lower(): item for key, item in value.items()}, line)


def read_pairs_line(line: str) -> LineFields:
    """Read the fields of key=value pairs. A line that has no message among them is a message."""
    pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
    return _select_fields(pairs, line)


def _select_fields(fields: Mapping[str, object], line: str) -> LineFields:
    def select(names: Sequence[str]) -> str:
        found = next((fields[name] for name in names if name in fields), "")
        return found if isinstance(found, str) else json.dumps(found)

    message = select(_MESSAGE)
    return LineFields(message or line, select(_TIME), select(_LEVEL), select(_COMPONENT))


def _is_json(line: str) -> bool:
    return line.startswith("{") and line.endswith("}") and any(f'"{name}"' in line for name in _MESSAGE)


def _is_pairs(line: str) -> bool:
    return _LOGFMT.match(line) is not None
