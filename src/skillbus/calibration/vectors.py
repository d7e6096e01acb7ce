"""What a model makes of judged tools and requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skillbus.calibration.bm25 import Floats, Ints
from skillbus.calibration.errors import UnusableVectorsError
from skillbus.calibration.judged import Judged
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.relevance.sentences import split_sentences
from skillbus.vectors.directions import compute_mean_direction

Rows = NDArray[np.float32]
Embed = Callable[[Sequence[str], TextRole], Rows]
"""Rows of shape (n, dim), one a text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is embedded of the requests, as a search does it: the sentences of each, or the whole where it has none."""

    texts: tuple[str, ...]
    starts: tuple[int, ...]
    """Where the texts of each request begin."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Rows of length 1, shapes (tools, dim) and (texts of requests, dim)."""

    tools: Rows
    asked: Rows
    starts: Ints
    """Where the rows of each request begin in `asked`: first that of the whole, then those of its sentences."""

    def cosines(self, begin: int, end: int) -> Floats:
        """Of some requests with all tools, shape (end - begin, tools): of a request and its sentences, the nearest."""
        starts = self.starts[begin:end]
        last = int(self.starts[end]) if end < len(self.starts) else len(self.asked)
        of_texts = self.asked[starts[0] : last] @ self.tools.T
        return np.maximum.reduceat(of_texts, starts - starts[0]).astype(np.float64)


def asked_of(judged: Judged) -> Asked:
    """The texts of all requests."""
    texts, starts = list[str](), list[int]()
    for query in judged.queries:
        starts.append(len(texts))
        texts += split_sentences(query.query) or (query.query,)
    return Asked(tuple(texts), tuple(starts))


def vectors_of(judged: Judged, tools: Rows, asked: Rows) -> Vectors:
    """The rows that a model gave for the tools and for the texts of `asked_of`, scaled to length 1.

    Raises:
        UnusableVectorsError: they are not one for each text, of one width, finite and not zero.
    """
    if tools.ndim != 2 or asked.ndim != 2 or tools.shape[1] != asked.shape[1]:
        raise UnusableVectorsError(f"vectors of tools and requests differ in shape: {tools.shape}, {asked.shape}")
    wanted = asked_of(judged)
    rows = np.split(_unit(asked, len(wanted.texts), "texts asked"), wanted.starts[1:])
    whole = [some if len(some) == 1 else np.concatenate([_mean(some), some]) for some in rows]
    starts = np.cumsum([0, *map(len, whole[:-1])], dtype=np.int64)
    return Vectors(_unit(tools, len(judged.tools), "tools"), np.concatenate(whole), starts)


def _mean(rows: Rows) -> Rows:
    """As the retriever makes it of the vectors of sentences, shape (1, dim)."""
    return compute_mean_direction(rows)[np.newaxis]


def embedded(judged: Judged, embed: Embed) -> Vectors:
    """The same, by a model at hand."""
    tools = embed([tool.dense_text for tool in judged.tools], TextRole.DOCUMENT)
    return vectors_of(judged, tools, embed(asked_of(judged).texts, TextRole.QUERY))


def _unit(rows: Rows, count: int, what: str) -> Rows:
    if len(rows) != count:
        raise UnusableVectorsError(f"the model gave {len(rows)} vectors for {count} {what}")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if bad.size:
        raise UnusableVectorsError(f"the model's vector {int(bad[0])} of {what} is zero or not finite")
    scaled: Rows = (rows / norms).astype(np.float32)
    return scaled
