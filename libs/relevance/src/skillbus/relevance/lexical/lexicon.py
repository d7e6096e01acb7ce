"""Chinese-English lexicon: translates Chinese query words to English terms, so that they find English tools.

benchmarks/fitting/make_lexicon.py lists the sources of the data.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from skillbus.common.characters import HAN_CHARACTER
from skillbus.relevance.lexical.terms import stem_word

Translate = Callable[[str], Mapping[str, float]]
"""Function from a segmented word to terms with weights from 0 to 1; empty for an unknown word."""


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Packed translations: 90,000 words with six terms each take 20 MB."""

    row_of: Mapping[str, int]
    terms: tuple[str, ...]
    """Stems; some occur several times."""
    ends: NDArray[np.uint32]
    """End of each word's translations; they start at the end of the previous word's."""
    ids: NDArray[np.uint16]
    """Positions in `terms`."""
    weights: NDArray[np.uint8]
    """Weights in units of 1/255."""

    def translate_word(self, word: str) -> dict[str, float]:
        """Implement `Translate`."""
        row = self.row_of.get(word)
        if row is None:
            return {}
        begin, end = (int(self.ends[row - 1]) if row else 0), int(self.ends[row])
        found: dict[str, float] = {}
        for term, weight in zip(self.ids[begin:end].tolist(), self.weights[begin:end].tolist(), strict=True):
            stemmed = self.terms[term]
            found[stemmed] = max(found.get(stemmed, 0.0), weight / 255)
        return found


@cache
def load_lexicon() -> Lexicon:
    """Load the lexicon of this package once, in about 50 ms."""
    return unpack_lexicon(files("skillbus.relevance.lexical").joinpath("data", "zh_en.lexicon").read_bytes())


def translate_han(word: str) -> Mapping[str, float]:
    """Implement `Translate` with the lexicon of this package, which the first Han word loads."""
    return load_lexicon().translate_word(word) if HAN_CHARACTER.match(word) else {}


def unpack_lexicon(packed: bytes) -> Lexicon:
    """Unpack a lexicon from a deflated block.

    The block holds the words and the terms, one per line, with a NUL after each list; then the number of translations
    of each word (uint8), the term ids of all translations (uint16, little-endian), and their weights (uint8). Raises
    zlib.error or ValueError if the block is malformed.
    """
    words, terms, rest = zlib.decompress(packed).split(b"\0", 2)
    row_of = {word: row for row, word in enumerate(words.decode().split("\n"))}
    counts = np.frombuffer(rest, dtype=np.uint8, count=len(row_of))
    total = int(counts.sum())
    return Lexicon(
        row_of=row_of,
        terms=tuple(map(stem_word, terms.decode().split("\n"))),
        ends=np.cumsum(counts, dtype=np.uint32),
        ids=np.frombuffer(rest, dtype="<u2", count=total, offset=len(row_of)),
        weights=np.frombuffer(rest, dtype=np.uint8, count=total, offset=len(row_of) + 2 * total),
    )


def translate_nothing(_: str) -> Mapping[str, float]:
    """Implement `Translate` without any translation."""
    return {}
