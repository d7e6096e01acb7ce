"""Groups of calls that are alike: what learning keeps of a traffic log, however long it is."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from skillbus.contracts.learner.learned import EvidenceQuote
from skillbus.learning.redaction import redact_path, redact_text
from skillbus.learning.traffic.calls import HttpCall
from skillbus.learning.traffic.paths import PathSegments, PathTemplates, split_path
from skillbus.learning.traffic.settings import TrafficSettings

MESSAGE_CHARACTERS: Final = 300
_SAMPLES: Final = 3
_QUOTE_CHARACTERS: Final = 300
_SOURCE_CHARACTERS: Final = 65_536
_NUMBER: Final = re.compile(r"(?<![\w-])\d[\d.,:]*(?![\w-])|\b(?=\w*\d)\w{16,}\b")
_RESPONSE: Final = re.compile(r'"(?:status(?:_?code)?|response(?:_status|_code)?|res)"\s*:', re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z][\w.\[\]-]*")
_SUCCESS: Final = range(200, 400)
_CLIENT_ERRORS: Final = frozenset(range(400, 500)) - {408, 429, 499}
"""Statuses that may tell of a wrong request. Timeouts and throttling do not."""


@dataclass(slots=True)
class CallGroup:
    """Calls of one endpoint with the same names, the same status and the same message."""

    method: str
    host: str
    path: PathSegments
    headers: frozenset[str]
    parameters: frozenset[str]
    status: int
    message: str
    """Message without numbers."""
    text: str
    """Message of the first call."""
    count: int = 0
    quotes: list[EvidenceQuote] = field(default_factory=list)
    words: frozenset[str] = frozenset()
    """Words of the message, in lower case and without separators."""

    @property
    def succeeded(self) -> bool:
        """True if the server did what was asked."""
        return self.status in _SUCCESS

    @property
    def refused(self) -> bool:
        """True if the server found a fault in the request."""
        return self.status in _CLIENT_ERRORS


EndpointKey = tuple[str, PathSegments]
"""Method and path template."""


@dataclass(slots=True)
class Endpoints:
    """Call groups by method and path template."""

    groups: dict[EndpointKey, list[CallGroup]]
    calls: int
    dropped: int
    """Calls that were counted only, because there were too many different ones."""


def fold_name(name: str) -> str:
    """Return a name in a spelling that is the same for `Game-Id`, `game_id` and `gameId`."""
    return re.sub(r"[-_.\[\]]", "", name).lower()


def collect_endpoints(file: str, calls: Iterable[HttpCall], settings: TrafficSettings) -> Endpoints:
    """Group the calls of a file."""
    groups: dict[tuple[object, ...], CallGroup] = {}
    sets: dict[frozenset[str], frozenset[str]] = {}
    total = dropped = 0
    for call in calls:
        total += 1
        path = split_path(call.path)
        headers, parameters = (sets.setdefault(names, names) for names in (call.headers, call.parameters))
        message = _NUMBER.sub("#", call.message[: 2 * MESSAGE_CHARACTERS])[:MESSAGE_CHARACTERS]
        key = (call.method, call.host, path, headers, parameters, call.status, message)
        group = groups.get(key)
        if group is None:
            if len(groups) >= settings.max_groups:
                dropped += 1
                continue
            group = groups[key] = CallGroup(
                *(call.method, call.host, path, headers, parameters, call.status, message),
                text=call.message[:MESSAGE_CHARACTERS],
                words=_list_words(message),
            )
        group.count += 1
        if group.refused and len(group.quotes) < _SAMPLES:
            group.quotes.append(_quote_call(file, call))
    templates = PathTemplates((group.path for group in groups.values()), settings)
    endpoints: dict[EndpointKey, list[CallGroup]] = defaultdict(list)
    for group in groups.values():
        endpoints[group.method, templates.get_template(group.path)].append(group)
    return Endpoints(dict(sorted(endpoints.items())), total, dropped)


def _list_words(message: str) -> frozenset[str]:
    return frozenset(fold_name(word.rstrip(".-_")) for word in _WORD.findall(message))


def _quote_call(file: str, call: HttpCall) -> EvidenceQuote:
    """Return a quote of the redacted record: the status and what follows it, as far as it is one line."""
    source = redact_text(call.source[:_SOURCE_CHARACTERS].rstrip("\r\n"))
    match = _RESPONSE.search(source)
    if "\n" in source:  # A record of many lines, as in HAR: the line of the status.
        status = re.search(rf'"status"\s*:\s*{call.status}\b.*', source)
        start, end = (status.start(), status.end()) if status else (0, source.index("\n"))
        line = call.line + source.count("\n", 0, start)
    else:
        start, end, line = (match.start() if match else 0), len(source), call.line
    quote = source[start : min(end, start + _QUOTE_CHARACTERS)].strip()
    return EvidenceQuote(file=redact_path(file)[:300], line=line, quote=quote.replace("\x00", "") or "{}")
