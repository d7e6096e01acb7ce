"""Centring: spreads out the cosines of a model whose vectors all lie in a narrow cone.

It subtracts the mean of the role from each vector, and then the component along the direction in which the vectors of
both roles vary most (Mu and Viswanath, "All-but-the-Top", ICLR 2018, with one direction).
"""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Centring:
    """Means and direction, each of shape (dim,). The direction has length 1."""

    query_mean: FloatArray
    document_mean: FloatArray
    direction: FloatArray
    digest: str
    """Digest of the numbers, part of the model's fingerprint."""

    @classmethod
    def fit(cls, queries: FloatArray, documents: FloatArray) -> Self:
        """Fit to unit vectors of many texts, shapes (n, dim) and (m, dim). Both roles have equal weight."""
        means = queries.mean(axis=0), documents.mean(axis=0)
        spread = np.cov(queries, rowvar=False, bias=True) + np.cov(documents, rowvar=False, bias=True)
        direction = np.linalg.eigh(spread).eigenvectors[:, -1]
        return cls.build(*means, direction)

    @classmethod
    def build(cls, query_mean: FloatArray, document_mean: FloatArray, direction: FloatArray) -> Self:
        arrays = [np.asarray(array, "<f4") for array in (query_mean, document_mean, direction)]
        digest = blake2b(b"".join(array.tobytes() for array in arrays), digest_size=4).hexdigest()
        return cls(arrays[0], arrays[1], arrays[2], digest)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file that `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls.build(arrays["query_mean"], arrays["document_mean"], arrays["direction"])

    def save(self, path: Path) -> None:
        np.savez(path, query_mean=self.query_mean, document_mean=self.document_mean, direction=self.direction)

    def apply(self, rows: FloatArray, role: TextRole) -> FloatArray:
        """Return the centred rows, scaled to length 1."""
        centred = rows - (self.query_mean if role is TextRole.QUERY else self.document_mean)
        centred -= np.outer(centred @ self.direction, self.direction)
        unit: FloatArray = centred / np.linalg.norm(centred, axis=1, keepdims=True)
        return unit
