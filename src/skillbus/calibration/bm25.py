"""BM25 over a catalogue in memory, with the vector store's formula."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import translate_han

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def build_search_encoder() -> LexicalEncoder:
    """Build an encoder that reads requests like the embedder, with translations of their words."""
    return LexicalEncoder(translate=translate_han)


class Bm25:
    """Inverted index over the lexical encoder's vectors, with the store's IDF: ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, texts: Sequence[str], asides: Sequence[str] = (), encoder: LexicalEncoder | None = None) -> None:
        """Index texts, with one aside per text or none. By default queries are not translated."""
        self._encoder = encoder or LexicalEncoder()
        self._count = len(texts)
        posted: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for row, (text, aside) in enumerate(zip(texts, asides or [""] * len(texts), strict=True)):
            vector = self._encoder.encode_document(text, aside)
            for index, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
                posted[index].append((row, value))
        self._weights: dict[int, tuple[Ints, Floats]] = {}
        for index, rows in posted.items():
            idf = math.log(1 + (self._count - len(rows) + 0.5) / (len(rows) + 0.5))
            weights = np.array([value * idf for _, value in rows])
            self._weights[index] = np.array([row for row, _ in rows], dtype=np.int64), weights

    def compute_scores(self, query: str) -> Floats:
        scores = np.zeros(self._count)
        vector = self._encoder.encode_query(query)
        for index, weight in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
            if index in self._weights:
                rows, values = self._weights[index]
                scores[rows] += weight * values
        return scores
