"""What a measurement of the search of knowledge found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from skillbus.evaluation.cases import SEED
from skillbus.evaluation.knowledge_cases import KnowledgeCase, KnowledgeCases, kinds_of
from skillbus.evaluation.knowledge_measures import KnowledgeMeasure, knowledge_measured
from skillbus.evaluation.measures import RESAMPLES, Estimate, Floats, estimated
from skillbus.evaluation.report import Figure, figure_of

_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Ids = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class KnowledgeAnswers:
    """What came back for each query."""

    nearest: Sequence[Sequence[Scored]]
    """Without a threshold, best first."""
    default: Ids
    """At the threshold that search has when none is given."""
    bm25: Ids
    degraded: int
    model: str | None
    import_s: float
    ask_s: float


@dataclass(frozen=True, slots=True)
class KnowledgeSlice:
    """Queries of a kind."""

    name: str
    queries: int
    figures: dict[KnowledgeMeasure, Figure]


@dataclass(frozen=True, slots=True)
class Bin:
    """Hits whose scores lie close together."""

    low: float
    high: float
    hits: int
    mean_score: float
    answered: float
    """Share of them that answer their query: of a calibrated score it is the mean score."""


@dataclass(frozen=True, slots=True)
class KnowledgeReport:
    """All figures. Slices are without queries that nothing answers, and are asked without a threshold."""

    items: int
    queries: int
    absent: int
    """Ids that answer a query, but that no item has."""
    model: str | None
    degraded: int
    slices: tuple[KnowledgeSlice, ...]
    reliability: tuple[Bin, ...]
    """Of the first ten hits of each query."""
    calibration_error: float
    """Mean distance of score and share of answers over the bins, weighed by their hits."""
    answered_with_nothing: Estimate | None
    """Share of the queries that nothing answers, at the default threshold; None where there are none."""
    hit_at_1_lost: Estimate | None
    """What the default threshold costs the others."""
    import_s: float
    ask_s: float

    def document(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "seed": SEED, "resamples": RESAMPLES}


def knowledge_report_of(cases: KnowledgeCases, answers: KnowledgeAnswers) -> KnowledgeReport:
    """All figures of these answers."""
    nearest = [[hit.id for hit in hits] for hits in answers.nearest]
    bins = tuple(_bins(cases.cases, answers.nearest))
    hits = sum(it.hits for it in bins)
    nothing = np.array([not case.grades for case in cases.cases], dtype=np.bool_)
    empty = np.array([not ids for ids in answers.default], dtype=np.float64)
    lost = _hit_at_1(nearest, cases.cases) - _hit_at_1(answers.default, cases.cases)
    return KnowledgeReport(
        items=len(cases.docs),
        queries=len(cases.cases),
        absent=sum(case.absent for case in cases.cases),
        model=answers.model,
        degraded=answers.degraded,
        slices=tuple(_slices(cases.cases, nearest, answers.bm25)),
        reliability=bins,
        calibration_error=sum(abs(it.mean_score - it.answered) * it.hits for it in bins) / max(hits, 1),
        answered_with_nothing=estimated(empty[nothing]) if nothing.any() else None,
        hit_at_1_lost=None if nothing.all() else estimated(lost[~nothing]),
        import_s=round(answers.import_s, 2),
        ask_s=round(answers.ask_s, 2),
    )


def _hit_at_1(answers: Ids, cases: Sequence[KnowledgeCase]) -> Floats:
    return knowledge_measured(answers, cases)[KnowledgeMeasure.HIT_AT_1]


def _slices(cases: Sequence[KnowledgeCase], nearest: Ids, words: Ids) -> Iterator[KnowledgeSlice]:
    search, bm25 = knowledge_measured(nearest, cases), knowledge_measured(words, cases)
    for name, belongs in _names(cases).items():
        rows = np.array([bool(case.grades) and belongs(case) for case in cases], dtype=np.bool_)
        if rows.any():
            pairs = {measure: (search[measure][rows], bm25[measure][rows]) for measure in KnowledgeMeasure}
            figures = {measure: figure_of(*pair) for measure, pair in pairs.items() if not np.isnan(pair[0]).all()}
            yield KnowledgeSlice(name, int(rows.sum()), figures)


def _names(cases: Sequence[KnowledgeCase]) -> dict[str, Callable[[KnowledgeCase], bool]]:
    """All, by kind, by language."""
    named: dict[str, Callable[[KnowledgeCase], bool]] = {"all": lambda _: True}
    named |= {kind: _of_kind(kind) for kind in kinds_of(cases)}
    return named | {language: _of_language(language) for language in sorted({case.language for case in cases})}


def _of_kind(kind: str) -> Callable[[KnowledgeCase], bool]:
    return lambda case: case.kind == kind


def _of_language(language: str) -> Callable[[KnowledgeCase], bool]:
    return lambda case: case.language == language


def _bins(cases: Sequence[KnowledgeCase], nearest: Sequence[Sequence[Scored]]) -> Iterator[Bin]:
    pairs = [(hit.score, hit.id in case.grades) for case, hits in zip(cases, nearest, strict=True) for hit in hits]
    for low, high in pairwise(_EDGES):
        within = [(score, fits) for score, fits in pairs if low <= score < high or (high == 1.0 and score == 1.0)]
        if within:
            scores, fits = zip(*within, strict=True)
            yield Bin(low, high, len(within), sum(scores) / len(within), sum(fits) / len(within))
