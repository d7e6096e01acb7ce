"""Vectors of judged tools and requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skillbus.calibration.bm25 import Floats, Ints
from skillbus.calibration.errors import UnusableVectorsError
from skillbus.calibration.judged import Judged
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.relevance.sentences import split_sentences
from skillbus.vectors.mean_direction import compute_mean_direction

Rows = NDArray[np.float32]
Embed = Callable[[Sequence[str], TextRole], Rows]
"""Function that returns rows of shape (n, dim), one per text."""


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """Texts to embed for the requests, like in a search: the sentences of each, or the whole request."""

    texts: tuple[str, ...]
    starts: tuple[int, ...]
    """Start of each request in `texts`."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedVectors:
    """Unit vectors, shapes (tools, dim) and (texts of requests, dim)."""

    tools: Rows
    asked: Rows
    starts: Ints
    """Start of each request in `asked`: first the row of the whole request, then those of its sentences."""

    def compute_cosines(self, begin: int, end: int) -> Floats:
        """Return cosines with all tools, shape (end - begin, tools), of the nearest row of each request."""
        starts = self.starts[begin:end]
        last = int(self.starts[end]) if end < len(self.starts) else len(self.asked)
        of_texts = self.asked[starts[0] : last] @ self.tools.T
        return np.maximum.reduceat(of_texts, starts - starts[0]).astype(np.float64)


def list_query_texts(judged: Judged) -> QueryTexts:
    texts, starts = list[str](), list[int]()
    for query in judged.queries:
        starts.append(len(texts))
        texts += split_sentences(query.query) or (query.query,)
    return QueryTexts(tuple(texts), tuple(starts))


def build_vectors(judged: Judged, tools: Rows, asked: Rows) -> JudgedVectors:
    """Scale a model's rows, for the tools and for the texts of `list_query_texts`, to length 1.

    Raises:
        UnusableVectorsError: a row is missing, zero or not finite, or the widths differ.
    """
    if tools.ndim != 2 or asked.ndim != 2 or tools.shape[1] != asked.shape[1]:
        raise UnusableVectorsError(f"vectors of tools and requests differ in shape: {tools.shape}, {asked.shape}")
    wanted = list_query_texts(judged)
    rows = np.split(_scale_rows(asked, len(wanted.texts), "texts asked"), wanted.starts[1:])
    # Like the retriever, the vector of several sentences is their mean direction.
    whole = [
        some if len(some) == 1 else np.concatenate([compute_mean_direction(some)[np.newaxis], some]) for some in rows
    ]
    starts = np.cumsum([0, *map(len, whole[:-1])], dtype=np.int64)
    return JudgedVectors(_scale_rows(tools, len(judged.tools), "tools"), np.concatenate(whole), starts)


def embed_judged(judged: Judged, embed: Embed) -> JudgedVectors:
    """Embed tools and requests with a local model."""
    tools = embed([tool.dense_text for tool in judged.tools], TextRole.DOCUMENT)
    return build_vectors(judged, tools, embed(list_query_texts(judged).texts, TextRole.QUERY))


def _scale_rows(rows: Rows, count: int, what: str) -> Rows:
    if len(rows) != count:
        raise UnusableVectorsError(f"the model gave {len(rows)} vectors for {count} {what}")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if bad.size:
        raise UnusableVectorsError(f"the model's vector {int(bad[0])} of {what} is zero or not finite")
    scaled: Rows = (rows / norms).astype(np.float32)
    return scaled
