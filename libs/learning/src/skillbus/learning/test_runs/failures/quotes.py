"""Literal quotes: a line of a decoded text, found in the file as it was written."""

import json
import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from skillbus.learning.redaction import redact_text

_SPECIAL: Final = re.compile(r"[<>&\"'\\]")
_QUOT: Final = {'"': "&quot;"}
_LEAST: Final = 4
_CHECKED_CHARACTERS: Final = 20_000


def find_xml_quote(source: str, line: int, text: str) -> tuple[int, str]:
    """Return the line and the redacted literal of a text in a piece of XML that begins at a line."""
    return _find_quote(source, line, _write_xml_forms(text), text)


def find_json_quote(source: str, line: int, text: str) -> tuple[int, str]:
    """Return the line and the redacted literal of a text in a piece of JSON that begins at a line."""
    forms = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return _find_quote(source, line, iter(forms), text)


def _write_xml_forms(text: str) -> Iterator[str]:
    yield escape(text)
    yield escape(text, _QUOT)
    for apostrophe in ("&apos;", "&#39;", "&#x27;"):
        yield escape(text, _QUOT | {"'": apostrophe})
        yield escape(text, {"'": apostrophe})
    yield escape(text).replace("&gt;", ">")
    yield escape(text, _QUOT).replace("&gt;", ">")
    yield text


def _find_quote(source: str, line: int, forms: Iterator[str], text: str) -> tuple[int, str]:
    pieces = sorted(_SPECIAL.split(text), key=len, reverse=True)[:3]
    for form in (*forms, *(piece.strip() for piece in pieces if len(piece.strip()) >= _LEAST)):
        place = source.find(form) if form else -1
        if place >= 0:
            quote = redact_text(form)
            around = redact_text(source[max(0, place - _CHECKED_CHARACTERS) : place + len(form) + _CHECKED_CHARACTERS])
            if quote in around:
                return line + source.count("\n", 0, place), quote
    first = next((part.strip() for part in redact_text(source[:_CHECKED_CHARACTERS]).splitlines() if part.strip()), "")
    return line, first
