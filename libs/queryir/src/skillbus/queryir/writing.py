"""Folding of text: width, case, script and white space do not matter to names and words, positions are kept."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

_HAN: Final = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_IDEOGRAPHIC_ZERO: Final = "〇"


@dataclass(frozen=True, slots=True)
class FoldedText:
    """Text as names and words are compared: NFKC, lower case, simplified characters, one space between words.

    White space beside a Chinese character is dropped. Invisible characters are dropped too.
    """

    original: str
    text: str
    starts: tuple[int, ...]
    """Position in `original` of each character of `text`."""
    ends: tuple[int, ...]
    """Position in `original` after each character of `text`."""

    def quote_original(self, start: int, end: int) -> str:
        """Return the original spelling of `text[start:end]`."""
        if start >= end:
            return ""
        return self.original[self.starts[start] : self.ends[end - 1]].strip()


def fold_text(original: str) -> FoldedText:
    """Fold a text and keep the position of each character."""
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _split_clusters(original):
        folded = _fold_cluster(original[start:end])
        if folded == " " and (not characters or characters[-1] == " " or is_han(characters[-1])):
            continue
        if folded and is_han(folded[0]) and characters and characters[-1] == " ":
            del characters[-1], starts[-1], ends[-1]
        characters += folded
        starts += [start] * len(folded)
        ends += [end] * len(folded)
    while characters and characters[-1] == " ":
        del characters[-1], starts[-1], ends[-1]
    return FoldedText(original, "".join(characters), tuple(starts), tuple(ends))


def fold_name(name: str) -> str:
    """Return a name in the form in which names are compared: the text of `fold_text`, in a fraction of its time."""
    if not (name.isprintable() and unicodedata.is_normalized("NFKC", name)):
        return fold_text(name).text
    words = name.casefold().translate(_load_simplified()).split()
    folded = words[0] if words else ""
    for before, after in pairwise(words):
        folded += after if is_han(before[-1]) or is_han(after[0]) else f" {after}"
    return folded


def is_han(character: str) -> bool:
    """Return True for a Chinese character."""
    code = ord(character)
    return any(first <= code <= last for first, last in _HAN) or character == _IDEOGRAPHIC_ZERO


def is_inside_word(text: str, position: int) -> bool:
    """Return True if a position is inside a word or number of Latin script: `2` and `0` of `20`, not `tv` and `20`."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return (_is_letter(before) and _is_letter(after)) or (before.isdecimal() and after.isdecimal())


def _is_letter(character: str) -> bool:
    return character.isalpha() and not is_han(character)


def _split_clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ends of each character with the marks that combine with it."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not unicodedata.combining(text[end]):
            yield start, end
            start = end


def _fold_cluster(cluster: str) -> str:
    if cluster.isspace():
        return " "
    if cluster.isascii():
        return cluster.lower() if cluster.isprintable() else ""
    normal = unicodedata.normalize("NFKC", cluster).casefold().translate(_load_simplified())
    return "".join(one for one in normal if not unicodedata.category(one).startswith("C"))


@cache
def _load_simplified() -> dict[int, str]:
    """Return the map from traditional to simplified characters, loaded with the first text that needs it."""
    source = resources.files("skillbus.queryir") / "traditional.tsv"
    rows = [line.split("\t") for line in source.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {ord(before): after for many, simple in rows for before, after in zip(many, simple, strict=True)}
