"""Access logs: one call a line as JSON, in the dialects of servers, proxies and gateways."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from skillbus.learning.traffic.calls import (
    MESSAGE_CHARACTERS,
    HttpCall,
    UnreadableTrafficError,
    flatten_text,
    get_first,
    list_body_names,
    list_names,
    list_query_names,
    parse_json,
    parse_url,
)

_METHODS: Final = ("method", "request_method", "http_method", "verb", "requestMethod", "httpMethod")
_URLS: Final = ("path", "url", "uri", "request_uri", "requestUri", "requestUrl", "target", "full_path", "endpoint")
_STATUSES: Final = ("status", "status_code", "statusCode", "response_status", "response_code", "code")
_HEADERS: Final = ("headers", "request_headers", "requestHeaders", "req_headers", "header")
_QUERIES: Final = ("query", "query_string", "queryString", "args", "params", "query_params", "queryParams")
_REQUEST_BODIES: Final = ("request_body", "requestBody", "req_body", "request_data", "payload", "form", "json")
_BODIES: Final = ("body", "content", "data", "text", "json")
_RESPONSE_BODIES: Final = ("response_body", "responseBody", "resp_body", "error", "message", "msg", "detail")
_HOSTS: Final = ("host", "http_host", "server_name", "hostname", "authority", "vhost")
_REQUESTS: Final = ("request", "req", "httpRequest", "http_request")
_RESPONSES: Final = ("response", "res", "resp", "httpResponse", "http_response")
_REQUEST_LINE: Final = re.compile(r"([A-Z]{3,10}) (\S+)(?: HTTP/[\d.]+)?\s*")
_NGINX_HEADER: Final = re.compile(r"http_([a-z0-9_]+)")
_NO_HEADERS: Final = frozenset({"http_method", "http_version", "http_request", "http_response", "http_status"})
_STATUS: Final = range(100, 600)


def read_access_log(lines: Iterable[str]) -> Iterator[HttpCall]:
    """Yield the calls of an access log. Lines that hold no call are passed over.

    Raises UnreadableTrafficError at the end if no line held one.
    """
    found = number = 0
    for number, line in enumerate(lines, 1):
        record = _parse_line(line)
        call = parse_call(record, number, line) if record is not None else None
        if call is not None:
            found += 1
            yield call
    if number and not found:
        raise UnreadableTrafficError("No line holds an HTTP call as JSON: method, path and status.")


def parse_call(record: dict[str, JsonValue], line: int, source: str) -> HttpCall | None:
    """Return the call that a record describes; None if method, path or status is missing."""
    request, response = _get_part(record, _REQUESTS), _get_part(record, _RESPONSES)
    status = _parse_status(get_first(response, _STATUSES) or get_first(record, _STATUSES))
    method, url = _find_method_and_url(record, request)
    if status is None or not method or not url:
        return None
    host, path, names = parse_url(url)
    headers = _find_headers(record, request)
    parameters = names | _find_parameters(record, request, nested=bool(request))
    body = get_first(response, (*_BODIES, *_RESPONSE_BODIES)) if response else None
    if body is None:
        body = get_first(record, (*_RESPONSE_BODIES, *_BODIES))
    host = host or str(get_first(request, _HOSTS) or get_first(record, _HOSTS) or "")
    return HttpCall(
        line=line,
        method=method.upper()[:20],
        host=host.lower()[:200],
        path=path[:1_000],
        headers=headers,
        parameters=parameters,
        status=status,
        message=_get_message(body) if status >= 400 else "",
        source=source if status >= 400 else source[:4_000],
    )


def _parse_line(line: str) -> dict[str, JsonValue] | None:
    text = line.strip().lstrip("\ufeff")
    if not text.startswith("{"):
        return None
    try:
        record: JsonValue = json.loads(text.rstrip(","))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _get_part(record: dict[str, JsonValue], names: Iterable[str]) -> dict[str, JsonValue]:
    part = get_first(record, names)
    return part if isinstance(part, dict) else {}


def _parse_status(value: JsonValue) -> int | None:
    try:
        status = int(value) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        return None
    return status if status in _STATUS else None


def _find_method_and_url(record: dict[str, JsonValue], request: dict[str, JsonValue]) -> tuple[str, str]:
    method = get_first(request, _METHODS) or get_first(record, _METHODS)
    url = get_first(request, _URLS) or get_first(record, _URLS)
    line = get_first(record, _REQUESTS)
    match = _REQUEST_LINE.fullmatch(line) if isinstance(line, str) else None
    if match:
        method, url = method or match[1], url or match[2]
    if isinstance(url, dict):
        url = get_first(url, ("path", "raw", "full", "href"))
    return (method if isinstance(method, str) else ""), (url if isinstance(url, str) else "")


def _find_headers(record: dict[str, JsonValue], request: dict[str, JsonValue]) -> frozenset[str]:
    listed = get_first(request, _HEADERS) or get_first(record, _HEADERS)
    names = list_names(listed)
    for key, value in record.items():
        match = _NGINX_HEADER.fullmatch(key)
        if match and key not in _NO_HEADERS and value not in (None, "", "-"):
            names |= {match[1].replace("_", "-")}
    return names


def _find_parameters(record: dict[str, JsonValue], request: dict[str, JsonValue], *, nested: bool) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for holder in (request, record):
        query = get_first(holder, _QUERIES)
        names |= list_query_names(query.lstrip("?")) if isinstance(query, str) else list_body_names(query)
        names |= list_body_names(get_first(holder, _REQUEST_BODIES))
    return names | (list_body_names(get_first(request, _BODIES)) if nested else frozenset())


def _get_message(body: JsonValue) -> str:
    parsed = parse_json(body) if isinstance(body, str) else body
    return flatten_text(body if parsed is None else parsed)[:MESSAGE_CHARACTERS]
