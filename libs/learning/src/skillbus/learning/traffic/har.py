"""HAR files: the HTTP archives that browsers and proxies export."""

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from skillbus.learning.json_stream import JsonElement, JsonStreamError, iterate_json
from skillbus.learning.traffic.access_log import parse_call
from skillbus.learning.traffic.calls import HttpCall, UnreadableTrafficError, list_names

_ENTRIES: Final = ("log", "entries")


def read_har(text: str | Iterable[str]) -> Iterator[HttpCall]:
    """Yield the calls of a HAR file, given as a text or in chunks.

    Entries without a request or response are passed over.
    Raises UnreadableTrafficError if it is not HAR, or where it ends early.
    """
    chunks = iter([text]) if isinstance(text, str) else iter(text)
    first = next(chunks, "").lstrip("\ufeff")
    found = False
    try:
        for element in iterate_json(_join(first, chunks), [_ENTRIES]):
            found = found or element.path[:1] == ("log",)
            call = _parse_entry(element) if element.path == _ENTRIES else None
            if call is not None:
                yield call
    except JsonStreamError as error:
        raise UnreadableTrafficError(str(error)) from error
    if not found:
        raise UnreadableTrafficError("The JSON is no HAR file: it has no `log`.")


def _join(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _parse_entry(element: JsonElement) -> HttpCall | None:
    entry = element.value
    request = entry.get("request") if isinstance(entry, dict) else None
    response = entry.get("response") if isinstance(entry, dict) else None
    if not isinstance(request, dict) or not isinstance(response, dict):
        return None
    posted = request.get("postData")
    posted = posted if isinstance(posted, dict) else {}
    content = response.get("content")
    record: dict[str, JsonValue] = {
        "request": {
            "method": request.get("method"),
            "url": request.get("url"),
            "headers": request.get("headers"),
            "body": posted.get("text") or dict.fromkeys(list_names(posted.get("params")), "given"),
        },
        "response": {
            "status": response.get("status"),
            "body": content.get("text") if isinstance(content, dict) else None,
        },
    }
    return parse_call(record, element.line, element.text)
