"""Calls of an HTTP interface, as access logs and HAR files record them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import JsonValue

MESSAGE_CHARACTERS: Final = 2_000
"""Most of a response's text that is examined."""
MAX_NAMES: Final = 100
"""Most headers or parameters of a call."""
_NAME_CHARACTERS: Final = 100
_DEPTH: Final = 4


class UnreadableTrafficError(ValueError):
    """The file is no access log or HAR file, or ends early. The message says where."""


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request and its response. Values of headers and parameters are not kept."""

    line: int
    """Line of the file, counted from 1."""
    method: str
    host: str
    path: str
    """Decoded path, without the query."""
    headers: frozenset[str]
    """Names of request headers in lower case, without those that are empty."""
    parameters: frozenset[str]
    """Names in the query and in the request's body."""
    status: int
    message: str = ""
    """Text of the response's body."""
    source: str = ""
    """Literal text of the record."""


def parse_url(url: str) -> tuple[str, str, frozenset[str]]:
    """Return the host, the decoded path and the names of the query's parameters."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "", url.partition("?")[0], frozenset()
    path = "/" + unquote(parts.path).strip("/")
    return host, path, list_query_names(parts.query)


def list_query_names(query: str) -> frozenset[str]:
    """Return the names of a query's or form's parameters that have values."""
    try:
        pairs = parse_qsl(query, max_num_fields=MAX_NAMES)
    except ValueError:
        return frozenset()
    return frozenset(name[:_NAME_CHARACTERS] for name, value in pairs if value)


def list_names(value: JsonValue) -> frozenset[str]:
    """Return the names that have a value, in lower case: of a JSON object, or of a list of name and value."""
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = (_split_pair(entry) for entry in value)
    names = (str(name).strip().lower()[:_NAME_CHARACTERS] for name, held in pairs if held not in (None, "", "-", []))
    return frozenset([name for name in names if name][:MAX_NAMES])


def list_body_names(body: JsonValue) -> frozenset[str]:
    """Return the names of the fields in a request's body: a JSON object, its text, or a form."""
    parsed = parse_json(body) if isinstance(body, str) else body
    if isinstance(parsed, dict):
        return frozenset(
            [str(name)[:_NAME_CHARACTERS] for name, held in parsed.items() if held is not None][:MAX_NAMES]
        )
    return list_query_names(body) if isinstance(body, str) and "=" in body else frozenset()


def flatten_text(value: JsonValue, depth: int = 0) -> str:
    """Return the texts of a JSON value, separated by spaces; names of fields stand before texts in lists."""
    if isinstance(value, str):
        return value[:MESSAGE_CHARACTERS]
    if depth >= _DEPTH or not isinstance(value, list | dict):
        return ""
    parts = value[:20] if isinstance(value, list) else list(value.values())[:20]
    return " ".join(text for part in parts if (text := flatten_text(part, depth + 1)))[:MESSAGE_CHARACTERS]


def parse_json(text: str) -> JsonValue:
    """Return the JSON value of a text; None if it is none."""
    try:
        parsed: JsonValue = json.loads(text[:1_000_000])
    except (ValueError, RecursionError):
        return None
    return parsed


def get_first(record: Mapping[str, JsonValue], names: Iterable[str]) -> JsonValue:
    """Return the value of the first of these fields that is there; None if none is."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _split_pair(entry: JsonValue) -> tuple[object, object]:
    if isinstance(entry, dict):
        return get_first(entry, ("name", "key", "Name")), get_first(entry, ("value", "Value"))
    if isinstance(entry, list) and len(entry) == 2:
        return entry[0], entry[1]
    name, _, value = entry.partition(":") if isinstance(entry, str) else ("", "", "")
    return name, value.strip()
