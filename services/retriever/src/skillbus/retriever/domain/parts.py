"""In which parts of a tool the terms of a request stand."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


def parts_with(terms: Sequence[str], parts: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts that hold one of the terms. English terms are stems: they begin a word of the part."""
    beginnings = [_beginning(term) for term in terms]
    within = [term for term in terms if not term.isascii()]
    return tuple(name for name, text in parts.items() if text and _holds(text, beginnings, within))


def _holds(text: str, beginnings: Sequence[str], within: Sequence[str]) -> bool:
    words = f" {_BOUNDARY.sub(' ', text).lower()}"
    if any(beginning in words for beginning in beginnings):
        return True
    return bool(within) and any(term in words.replace(" ", "") for term in within)


def _beginning(stem: str) -> str:
    """How a word with this stem begins: Snowball makes i of y, query is queri."""
    return f" {stem[:-1] if len(stem) > 3 and stem.endswith('i') else stem}"
