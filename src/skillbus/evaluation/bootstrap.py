"""How far a mean may be by chance: 95 % intervals of the percentile bootstrap (Efron 1979) over requests."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from skillbus.evaluation.cases import SEED
from skillbus.evaluation.measures import Floats

RESAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and the interval it lies in."""

    mean: float
    low: float
    high: float


def estimated(values: Floats) -> Estimate:
    """Of at least one number. Of a difference, give the differences: requests are then compared with themselves."""
    random = np.random.default_rng(SEED)
    means = [values[random.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))
