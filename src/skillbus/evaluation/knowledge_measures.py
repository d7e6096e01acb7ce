"""Measures of a list of items against the known answers of a query."""

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from skillbus.evaluation.knowledge_cases import KnowledgeCase
from skillbus.evaluation.measures import DEPTH, Floats


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
    rows = [_measure_case(answer[:DEPTH], case) for answer, case in zip(answers, cases, strict=True)]
    return {measure: np.array([row[measure] for row in rows], dtype=np.float64) for measure in KnowledgeMeasure}


def _measure_case(answer: Sequence[str], case: KnowledgeCase) -> dict[KnowledgeMeasure, float]:
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
