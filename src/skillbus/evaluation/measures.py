"""Measures of a list of tools or knowledge items against the known relevant ones, and bootstrap intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skillbus.evaluation.cases import SEED, Case
from skillbus.evaluation.knowledge_cases import KnowledgeCase

Floats = NDArray[np.float64]
DEPTH: Final = 10
"""Number of hits requested."""


class Measure(StrEnum):
    """Measures of one request, from 0 to 1. Reports show the mean over requests."""

    HIT_AT_1 = "hit_at_1"
    """1 if the first tool is relevant."""
    RECALL_AT_5 = "recall_at_5"
    """Share of the wants met by the first five."""
    RECALL_AT_10 = "recall_at_10"
    NDCG_AT_10 = "ndcg_at_10"
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), each want counted once."""
    MRR = "mrr"
    """Reciprocal rank of the first relevant tool; 0 after the tenth."""
    SET_RECALL = "set_recall"
    """1 if the first ten meet all wants; only for requests for several tools."""


def compute_measures(answers: Sequence[Sequence[str]], cases: Sequence[Case]) -> dict[Measure, Floats]:
    """Return one number per case, NaN if the measure does not apply. `answers` are ids, best first."""
    rows = [_measure_case(answer[:DEPTH], case) for answer, case in zip(answers, cases, strict=True)]
    return {measure: np.array([row[measure] for row in rows], dtype=np.float64) for measure in Measure}


def _measure_case(answer: Sequence[str], case: Case) -> dict[Measure, float]:
    if not case.wants:
        return dict.fromkeys(Measure, math.nan)
    open_wants, gains = list(case.wants), list[int]()  # the number of wants that each tool is the first to meet
    for tool in answer:
        gains.append(sum(tool in want for want in open_wants))
        open_wants = [want for want in open_wants if tool not in want]
    wanted = len(case.wants)
    fitting = [place for place, tool in enumerate(answer, start=1) if tool in case.relevant]
    return {
        Measure.HIT_AT_1: float(fitting[:1] == [1]),
        Measure.RECALL_AT_5: sum(gains[:5]) / wanted,
        Measure.RECALL_AT_10: sum(gains) / wanted,
        Measure.NDCG_AT_10: _sum_discounted(gains) / _sum_discounted([1] * min(wanted, DEPTH)),
        Measure.MRR: 1 / fitting[0] if fitting else 0.0,
        Measure.SET_RECALL: float(sum(gains) == wanted) if case.kind == "multi" else math.nan,
    }


class KnowledgeMeasure(StrEnum):
    """Measures of one query, from 0 to 1. Reports show the mean over queries."""

    HIT_AT_1 = "hit_at_1"
    """1 if the first item answers the query: recall@1 if one item does."""
    RECALL_AT_5 = "recall_at_5"
    """Share of the answering items among the first five."""
    NDCG_AT_10 = "ndcg_at_10"
    """Normalised discounted cumulative gain, a grade as its gain (Järvelin and Kekäläinen 2002)."""
    MRR_AT_10 = "mrr_at_10"
    """Reciprocal rank of the first answering item; 0 after the tenth."""
    RECALL_ACROSS = "recall_at_5_across"
    """Share of the answering items in another language that are among the first five, for queries that have any."""


def compute_knowledge_measures(
    answers: Sequence[Sequence[str]], cases: Sequence[KnowledgeCase]
) -> dict[KnowledgeMeasure, Floats]:
    """Return one number per case, NaN if the measure does not apply. `answers` are ids, best first."""
    rows = [_measure_knowledge_case(answer[:DEPTH], case) for answer, case in zip(answers, cases, strict=True)]
    return {measure: np.array([row[measure] for row in rows], dtype=np.float64) for measure in KnowledgeMeasure}


def _measure_knowledge_case(answer: Sequence[str], case: KnowledgeCase) -> dict[KnowledgeMeasure, float]:
    if not case.grades:
        return dict.fromkeys(KnowledgeMeasure, math.nan)
    gains = [case.grades.get(name, 0.0) for name in answer]
    fitting = [place for place, gain in enumerate(gains, start=1) if gain]
    ideal = sorted(case.grades.values(), reverse=True)[:DEPTH]
    across = len(case.across.intersection(answer[:5])) / len(case.across) if case.across else math.nan
    return {
        KnowledgeMeasure.HIT_AT_1: float(fitting[:1] == [1]),
        KnowledgeMeasure.RECALL_AT_5: sum(gain > 0 for gain in gains[:5]) / len(case.grades),
        KnowledgeMeasure.NDCG_AT_10: _sum_discounted(gains) / _sum_discounted(ideal),
        KnowledgeMeasure.MRR_AT_10: 1 / fitting[0] if fitting else 0.0,
        KnowledgeMeasure.RECALL_ACROSS: across,
    }


def _sum_discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


RESAMPLES: Final = 1_000
_DRAWS: Final = 1_000_000  # in memory at once


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def estimate_mean(values: Floats) -> Estimate:
    """Estimate the mean of at least one number. For a difference pass paired differences, one per request."""
    random, count = np.random.default_rng(SEED), len(values)
    at_a_time = max(1, _DRAWS // count)
    sizes = [min(at_a_time, RESAMPLES - begun) for begun in range(0, RESAMPLES, at_a_time)]
    means = [values[random.integers(count, size=(size, count))].mean(axis=1) for size in sizes]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))
