"""Minimises a convex function of a few numbers."""

from collections.abc import Callable
from typing import Final

import numpy as np

from skillbus.calibration.bm25 import Floats

Convex = Callable[[Floats], tuple[float, Floats, Floats]]
"""Value, gradient and Hessian at a point."""

_STEPS: Final = 100
_HALVINGS: Final = 40
_JITTER: Final = 1e-9  # keeps the Hessian solvable where the function is flat


def minimum(function: Convex, start: Floats) -> Floats:
    """Newton's method; a step that does not descend is halved until it does."""
    point, (value, gradient, hessian) = start, function(start)
    for _ in range(_STEPS):
        step = np.linalg.solve(hessian + _JITTER * np.eye(len(point)), gradient)
        for halving in range(_HALVINGS):
            nearer = point - step * 0.5**halving
            found = function(nearer)
            if found[0] < value:
                break
        else:
            return point
        point, (value, gradient, hessian) = nearer, found
    return point
