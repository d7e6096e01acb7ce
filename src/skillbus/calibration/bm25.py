"""BM25 over a catalogue in memory, as the vector store counts it."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import load_lexicon

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def encoder_of_search() -> LexicalEncoder:
    """Reads a request as the embedder does, translations of its words included."""
    return LexicalEncoder(translate=load_lexicon().translate_word)


class Bm25:
    """An inverted index over the lexical encoder's vectors, with the store's IDF: ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, texts: Sequence[str], asides: Sequence[str] = (), encoder: LexicalEncoder | None = None) -> None:
        """By default without translations, so that a query finds what has its own words; `asides` are one a text."""
        self._encoder = encoder or LexicalEncoder()
        self._count = len(texts)
        posted: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for row, (text, aside) in enumerate(zip(texts, asides or [""] * len(texts), strict=True)):
            vector = self._encoder.encode_document(text, aside)
            for index, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
                posted[index].append((row, value))
        self._weights = {index: self._weighted(rows) for index, rows in posted.items()}

    def _weighted(self, rows: list[tuple[int, float]]) -> tuple[Ints, Floats]:
        idf = math.log(1 + (self._count - len(rows) + 0.5) / (len(rows) + 0.5))
        return np.array([row for row, _ in rows], dtype=np.int64), np.array([value * idf for _, value in rows])

    def scores(self, query: str) -> Floats:
        """One for each text."""
        scores = np.zeros(self._count)
        vector = self._encoder.encode_query(query)
        for index, weight in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
            if index in self._weights:
                rows, values = self._weights[index]
                scores[rows] += weight * values
        return scores
