"""Report of an evaluation of knowledge search."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from skillbus.calibration.judged import Bools
from skillbus.evaluation.cases import SEED
from skillbus.evaluation.knowledge_cases import KnowledgeCase, KnowledgeCases
from skillbus.evaluation.measures import (
    RESAMPLES,
    Estimate,
    KnowledgeMeasure,
    compute_knowledge_measures,
    estimate_mean,
)
from skillbus.evaluation.report import Ids, Slice, build_slices

_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit with its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class KnowledgeAnswers:
    """Hits of each query, best first."""

    nearest: Sequence[Sequence[Scored]]
    """Without a threshold."""
    default: Ids
    """With the default threshold."""
    bm25: Ids
    degraded: int
    model: str | None
    import_s: float
    ask_s: float


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """Hits with similar scores."""

    low: float
    high: float
    hits: int
    mean_score: float
    answered: float
    """Share of them that answer their query. It equals the mean score if scores are calibrated."""


@dataclass(frozen=True, slots=True)
class KnowledgeReport:
    """All figures. Slices omit queries without an answering item, and use no threshold."""

    items: int
    queries: int
    absent: int
    """Answering ids without an item."""
    model: str | None
    degraded: int
    slices: tuple[Slice[KnowledgeMeasure], ...]
    reliability: tuple[ScoreBin, ...]
    """Bins of the first ten hits of each query."""
    calibration_error: float
    """Mean distance between score and share of answers over the bins, weighted by their hits."""
    answered_with_nothing: Estimate | None
    """Share of the unanswerable queries without hits at the default threshold; None if there are none."""
    hit_at_1_lost: Estimate | None
    """Cost of the default threshold for the other queries."""
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def build_knowledge_report(cases: KnowledgeCases, answers: KnowledgeAnswers) -> KnowledgeReport:
    nearest = [[hit.id for hit in hits] for hits in answers.nearest]
    bins = tuple(_build_bins(cases.cases, answers.nearest))
    hits = sum(it.hits for it in bins)
    nothing = np.array([not case.grades for case in cases.cases], dtype=np.bool_)
    empty = np.array([not ids for ids in answers.default], dtype=np.float64)
    search, bm25 = (compute_knowledge_measures(ids, cases.cases) for ids in (nearest, answers.bm25))
    at_default = compute_knowledge_measures(answers.default, cases.cases)
    lost = search[KnowledgeMeasure.HIT_AT_1] - at_default[KnowledgeMeasure.HIT_AT_1]
    return KnowledgeReport(
        items=len(cases.docs),
        queries=len(cases.cases),
        absent=sum(case.absent for case in cases.cases),
        model=answers.model,
        degraded=answers.degraded,
        slices=tuple(build_slices(search, bm25, _select_rows(cases.cases))),
        reliability=bins,
        calibration_error=sum(abs(it.mean_score - it.answered) * it.hits for it in bins) / max(hits, 1),
        answered_with_nothing=estimate_mean(empty[nothing]) if nothing.any() else None,
        hit_at_1_lost=None if nothing.all() else estimate_mean(lost[~nothing]),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def _select_rows(cases: Sequence[KnowledgeCase]) -> dict[str, Bools]:
    """Return the mask of each slice by name: kind and language."""
    answerable = np.array([bool(case.grades) for case in cases], dtype=np.bool_)
    kinds = np.array([case.kind for case in cases], dtype=np.str_)
    languages = np.array([case.language for case in cases], dtype=np.str_)
    masks = {"all": answerable} | {kind: answerable & (kinds == kind) for kind in sorted({it.kind for it in cases})}
    return masks | {name: answerable & (languages == name) for name in sorted({it.language for it in cases})}


def _build_bins(cases: Sequence[KnowledgeCase], nearest: Sequence[Sequence[Scored]]) -> Iterator[ScoreBin]:
    pairs = [(hit.score, hit.id in case.grades) for case, hits in zip(cases, nearest, strict=True) for hit in hits]
    for low, high in pairwise(_EDGES):
        within = [(score, fits) for score, fits in pairs if low <= score < high or (high == 1.0 and score == 1.0)]
        if within:
            scores, fits = zip(*within, strict=True)
            yield ScoreBin(low, high, len(within), sum(scores) / len(within), sum(fits) / len(within))
