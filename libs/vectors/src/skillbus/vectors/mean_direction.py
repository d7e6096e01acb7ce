"""Directions of dense vectors."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_NO_LENGTH: Final = 1e-6


def compute_mean_direction(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean direction of vectors of length 1, shape (n, dim) → (dim,).

    Opposite vectors have no mean direction: the first one is returned.
    """
    added = rows.sum(axis=0, dtype=np.float64)
    length = float(np.sqrt((added * added).sum()))
    mean: NDArray[np.float32] = (added / length).astype(np.float32) if length > _NO_LENGTH else rows[0]
    return mean
