"""What a list of tools is worth to one who knows what fits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillbus.evaluation.cases import SEED, Case

Floats = NDArray[np.float64]
DEPTH: Final = 10
"""How many tools are asked for."""


class Measure(StrEnum):
    """Each from 0 to 1, of one request; the mean over requests is told."""

    HIT_AT_1 = "hit_at_1"
    """Whether the first tool fits."""
    RECALL_AT_5 = "recall_at_5"
    """Share of what is wanted that is among the first five."""
    RECALL_AT_10 = "recall_at_10"
    NDCG_AT_10 = "ndcg_at_10"
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), each want counted once."""
    MRR = "mrr"
    """One by the place of the first tool that fits; 0 past the tenth."""
    SET_RECALL = "set_recall"
    """Whether all that is wanted is among the first ten; only of requests for several tools."""


def measured(answers: Sequence[Sequence[str]], cases: Sequence[Case]) -> dict[Measure, Floats]:
    """One number a case, NaN where the measure says nothing of it; `answers` are ids, best first."""
    rows = [_of(answer[:DEPTH], case) for answer, case in zip(answers, cases, strict=True)]
    return {measure: np.array([row[measure] for row in rows], dtype=np.float64) for measure in Measure}


def _of(answer: Sequence[str], case: Case) -> dict[Measure, float]:
    if not case.wants:
        return dict.fromkeys(Measure, math.nan)
    gains = _gains(answer, case)
    wanted = len(case.wants)
    fitting = [place for place, tool in enumerate(answer, start=1) if tool in case.relevant]
    return {
        Measure.HIT_AT_1: float(fitting[:1] == [1]),
        Measure.RECALL_AT_5: sum(gains[:5]) / wanted,
        Measure.RECALL_AT_10: sum(gains) / wanted,
        Measure.NDCG_AT_10: _discounted(gains) / _discounted([1] * min(wanted, DEPTH)),
        Measure.MRR: 1 / fitting[0] if fitting else 0.0,
        Measure.SET_RECALL: float(sum(gains) == wanted) if case.kind == "multi" else math.nan,
    }


def _gains(answer: Sequence[str], case: Case) -> list[int]:
    """How many wants each tool meets that none before it met."""
    open_wants = list(case.wants)
    gains = []
    for tool in answer:
        met = [want for want in open_wants if tool in want]
        open_wants = [want for want in open_wants if tool not in want]
        gains.append(len(met))
    return gains


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


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
