"""Table of phrases of one or several words."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

Meaning = TypeVar("Meaning")

_NO_PLURALS: Final = frozenset("gas is as this has was us its yes bus plus less always news glass his does".split())  # noqa: SIM905  (reads better)


class PhraseTable(Generic[Meaning]):
    """Meaning of phrases. The longest phrase of a place is found first."""

    def __init__(self, phrases: Mapping[str, Meaning], *, singular: bool = False) -> None:
        """Index the phrases by their words; with `singular`, by the singular of each word."""
        change = find_singular if singular else str
        self._meanings = {
            tuple(change(word) for word in phrase.split()): meaning for phrase, meaning in phrases.items()
        }
        lengths: dict[str, set[int]] = {}
        for words in self._meanings:
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}

    def match(self, words: Sequence[str], start: int) -> tuple[int, Meaning] | None:
        """Return the length and the meaning of the longest phrase at a place, or None."""
        for length in self._lengths.get(words[start], ()):
            phrase = tuple(words[start : start + length])
            if len(phrase) == length and phrase in self._meanings:
                return length, self._meanings[phrase]
        return None

    def __contains__(self, words: Iterable[str]) -> bool:
        """Return True for the words of a phrase of the table."""
        return tuple(words) in self._meanings

    def get(self, words: Iterable[str]) -> Meaning | None:
        """Return the meaning of a whole phrase."""
        return self._meanings.get(tuple(words))


def spread_phrases(rows: Mapping[Meaning, str]) -> dict[str, Meaning]:
    """Return the meaning of each phrase, from rows that list the phrases of a meaning with commas between them."""
    return {phrase.strip(): meaning for meaning, phrases in rows.items() for phrase in phrases.split(",")}


def read_words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


@lru_cache(maxsize=10_000)
def find_singular(word: str) -> str:
    """Return the singular of a plural, and other words unchanged."""
    if len(word) < 3 or not word.endswith("s") or word in _NO_PLURALS or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1]
