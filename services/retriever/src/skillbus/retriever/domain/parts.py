"""In which parts of a tool the terms of a request stand."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


def parts_with(terms: Sequence[str], parts: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts that hold one of the terms. English terms are stems: they begin a word of the part."""
    return tuple(name for name, text in parts.items() if text and _holds(text, terms))


def _holds(text: str, terms: Sequence[str]) -> bool:
    words = f" {_BOUNDARY.sub(' ', text).lower()}"
    joined = words.replace(" ", "")
    return any(_beginning(term) in words or (not term.isascii() and term in joined) for term in terms)


def _beginning(stem: str) -> str:
    """How a word with this stem begins: Snowball makes i of y, query is queri."""
    return f" {stem[:-1] if len(stem) > 3 and stem.endswith('i') else stem}"
