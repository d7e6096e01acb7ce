"""Matrices of the bus as arrays."""

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.message import FloatMatrix


def rows_of(matrix: FloatMatrix | None) -> NDArray[np.float32]:
    """Shape (n, dim); of no matrix (0, 0)."""
    if matrix is None:
        return np.empty((0, 0), np.float32)
    return np.frombuffer(matrix.data, "<f4").reshape(matrix.count, matrix.dim).astype(np.float32, copy=False)
