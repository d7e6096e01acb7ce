"""Names near to a misspelt one: of commands, and of things on the server.

Their last parts are compared, by difflib's ratio: `calclate` is near to `builtin:calculate` and to `skill:calculate`.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

_NEAR: Final = 3
"""Names that are suggested at most."""
_LIKENESS: Final = 0.65
"""Least likeness: two letters in the wrong order leave a word of three letters 0.67."""
_PARTS: Final = re.compile(r"[:/ ]")


def find_near_names(word: str, names: Iterable[str]) -> list[str]:
    """Return the names nearest to a word, best first."""
    by_part: dict[str, list[str]] = {}
    for name in names:
        by_part.setdefault(_get_last_part(name), []).append(name)
    matches = get_close_matches(_get_last_part(word), by_part, _NEAR, _LIKENESS)
    return list(dict.fromkeys(name for match in matches for name in by_part[match]))[:_NEAR]


def format_question(near: Sequence[str]) -> str:
    """Return the question whether one of these names was meant."""
    quoted = [f"`{name}`" for name in near]
    return f"Did you mean {' or '.join(filter(None, (', '.join(quoted[:-1]), quoted[-1])))}?"


def _get_last_part(name: str) -> str:
    return _PARTS.split(name)[-1].lower()
