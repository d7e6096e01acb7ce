"""Directions of dense vectors."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_NO_LENGTH: Final = 1e-6


def mean_of(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The direction in between of vectors of length 1, shape (n, dim) → (dim,).

    Of directions without one, as two that are opposite, it is the first.
    """
    added = rows.sum(axis=0, dtype=np.float64)
    length = float(np.sqrt((added * added).sum()))
    mean: NDArray[np.float32] = (added / length).astype(np.float32) if length > _NO_LENGTH else rows[0]
    return mean
