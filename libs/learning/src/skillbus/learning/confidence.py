"""Confidence of a learned statement: the 90 % interval of a Beta distribution over the counts of its evidence."""

from math import exp, lgamma, log
from typing import Final

from skillbus.contracts.learner.learned import ConfidenceInterval

_TAIL: Final = 0.05
"""Probability below the interval, and above it."""
_STEPS: Final = 50
_TINY: Final = 1e-300


def get_confidence(support: int, contradictions: int = 0) -> ConfidenceInterval:
    """Return the 90 % interval of Beta(1 + support, 1 + contradictions): a uniform prior and the counts."""
    a, b = 1.0 + support, 1.0 + contradictions
    return ConfidenceInterval(low=round(_quantile(_TAIL, a, b), 3), high=round(_quantile(1.0 - _TAIL, a, b), 3))


def _quantile(probability: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _cumulative(middle, a, b) < probability else (low, middle)
    return (low + high) / 2


def _cumulative(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function (Numerical Recipes, 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1.0 - x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued_fraction(x, a, b) / a
    return 1.0 - front * _continued_fraction(1.0 - x, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function by Lentz's method."""
    c, d = 1.0, 1.0 / _keep_apart(1.0 - (a + b) * x / (a + 1.0))
    result = d
    for m in range(1, 300):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _keep_apart(1.0 + factor * d)
            c = _keep_apart(1.0 + factor / c)
            result *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return result


def _keep_apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
