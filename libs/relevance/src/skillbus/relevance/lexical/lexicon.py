"""Chinese words as English terms, and how sure each translation is: what Chinese requests find English tools by."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from skillbus.relevance.lexical.terms import stem

Translate = Callable[[str], Mapping[str, float]]
"""From a word as the segmenter yields it to terms with weights from 0 to 1; nothing for one that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Translations of words, packed: 90,000 words with six terms each take 20 MB."""

    row_of: Mapping[str, int]
    terms: tuple[str, ...]
    """Stems, some of them several times."""
    ends: NDArray[np.uint32]
    """Where the translations of each word end; they begin where those of the word before end."""
    ids: NDArray[np.uint16]
    """Of terms."""
    weights: NDArray[np.uint8]
    """In parts of 255."""

    def translate(self, word: str) -> dict[str, float]:
        """A `Translate`."""
        row = self.row_of.get(word)
        if row is None:
            return {}
        begin, end = (int(self.ends[row - 1]) if row else 0), int(self.ends[row])
        found: dict[str, float] = {}
        for term, weight in zip(self.ids[begin:end].tolist(), self.weights[begin:end].tolist(), strict=True):
            stemmed = self.terms[term]
            found[stemmed] = max(found.get(stemmed, 0.0), weight / 255)
        return found


def unpack(packed: bytes) -> Lexicon:
    """A lexicon from a deflated block: words and terms, a line each, NUL after each list; then a count of translations
    for each word (uint8), the terms of all of them (uint16, little-endian), and their weights (uint8).

    Raises:
        zlib.error, ValueError: it is none.
    """
    words, terms, rest = zlib.decompress(packed).split(b"\0", 2)
    row_of = {word: row for row, word in enumerate(words.decode().split("\n"))}
    counts = np.frombuffer(rest, dtype=np.uint8, count=len(row_of))
    total = int(counts.sum())
    return Lexicon(
        row_of=row_of,
        terms=tuple(map(stem, terms.decode().split("\n"))),
        ends=np.cumsum(counts, dtype=np.uint32),
        ids=np.frombuffer(rest, dtype="<u2", count=total, offset=len(row_of)),
        weights=np.frombuffer(rest, dtype=np.uint8, count=total, offset=len(row_of) + 2 * total),
    )


def no_translation(_: str) -> Mapping[str, float]:
    """A `Translate` that knows no word."""
    return {}


def load_lexicon() -> Lexicon:
    """Takes some 50 ms and 20 MB."""
    return unpack(files("skillbus.relevance.lexical").joinpath("data", "zh_en.lexicon").read_bytes())
