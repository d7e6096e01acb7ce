"""How far a mean may be by chance: 95 % intervals of the percentile bootstrap (Efron 1979) over requests."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from skillbus.evaluation.cases import SEED
from skillbus.evaluation.measures import Floats

RESAMPLES: Final = 1_000
_DRAWS: Final = 1_000_000  # in memory at a time


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and the interval it lies in."""

    mean: float
    low: float
    high: float


def estimated(values: Floats) -> Estimate:
    """Of at least one number. Of a difference, give the differences: requests are then compared with themselves."""
    random, count = np.random.default_rng(SEED), len(values)
    at_a_time = max(1, _DRAWS // count)
    sizes = [min(at_a_time, RESAMPLES - begun) for begun in range(0, RESAMPLES, at_a_time)]
    means = [values[random.integers(count, size=(size, count))].mean(axis=1) for size in sizes]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))
