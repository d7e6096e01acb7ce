"""What a model makes of judged tools and requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skillbus.calibration.errors import UnusableVectorsError
from skillbus.calibration.judged import Judged
from skillbus.contracts.embedder import Role

Rows = NDArray[np.float32]
Embed = Callable[[Sequence[str], Role], Rows]
"""Rows of shape (n, dim), one a text."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Rows of length 1, shapes (tools, dim) and (queries, dim)."""

    tools: Rows
    queries: Rows


def vectors_of(judged: Judged, tools: Rows, queries: Rows) -> Vectors:
    """The rows that a model gave, scaled to length 1.

    Raises:
        UnusableVectorsError: they are not one for each tool and query, of one width, finite and not zero.
    """
    if tools.ndim != 2 or queries.ndim != 2 or tools.shape[1] != queries.shape[1]:
        raise UnusableVectorsError(f"vectors of tools and queries differ in shape: {tools.shape}, {queries.shape}")
    return Vectors(_unit(tools, len(judged.tools), "tools"), _unit(queries, len(judged.queries), "queries"))


def embedded(judged: Judged, embed: Embed) -> Vectors:
    """The same, by a model at hand."""
    tools = embed([tool.dense_text for tool in judged.tools], Role.DOCUMENT)
    return vectors_of(judged, tools, embed([query.query for query in judged.queries], Role.QUERY))


def _unit(rows: Rows, count: int, what: str) -> Rows:
    if len(rows) != count:
        raise UnusableVectorsError(f"the model gave {len(rows)} vectors for {count} {what}")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if bad.size:
        raise UnusableVectorsError(f"the model's vector {int(bad[0])} of {what} is zero or not finite")
    scaled: Rows = (rows / norms).astype(np.float32)
    return scaled
